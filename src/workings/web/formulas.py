"""Formulas as trees that a page can build without parsing, queries, keys and values marked."""

import re
from collections.abc import Callable
from xml.etree import ElementTree

from workings.views.notation import MathML, Notation, Text
from workings.web import told

_ROLE = re.compile(r"(?:.*\.)?(?:[Wb]_)?([QKV])(?:\.\d+)?")
_ROLES = {"Q": "query", "K": "key", "V": "value"}


def formula(write: Callable[[Notation], str], decimals: int = 3) -> told.Formula:
    """Write a formula for the eye and for the ear."""
    written = write(MathML(decimals))
    root = ElementTree.fromstring(f"<math>{written}</math>")  # noqa: S314 - we wrote it ourselves
    return told.Formula(tree=_tree(root), text=write(Text(decimals)))


def role(key: str) -> str:
    """Say whether a matrix has to do with queries, keys or values alone.

    >>> role("W_Q"), role("attention.K"), role("scores")
    ('query', 'key', '')
    """
    match = _ROLE.fullmatch(key)
    return _ROLES[match[1]] if match else ""


def _tree(node: ElementTree.Element) -> told.Tree:
    attributes, words = dict(node.attrib), node.text or ""
    if node.tag == "mi" and words in _ROLES:
        attributes["class"] = _ROLES[words]
    children: list[object] = [words] if words else []
    for child in node:
        children += [_tree(child), *([child.tail] if child.tail else [])]
    if node.tag.startswith("msub") and "".join(node[0].itertext()) in ("W", "b"):
        letter = "".join(node[1].itertext())
        attributes |= {"class": _ROLES[letter]} if letter in _ROLES else {}
    return [node.tag, attributes, *children]
