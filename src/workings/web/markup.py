"""Formulas as trees that a page can build without parsing, queries, keys and values marked."""

import re
from collections.abc import Callable, Mapping
from xml.etree import ElementTree

from workings.problems.notation import MathMLNotation, Notation, TextNotation
from workings.render.pictures import Picture
from workings.web import responses
from workings.web.responses import MarkupTree

_ROLE = re.compile(r"(?:.*\.)?(?:[Wb]_)?([QKV])(?:\.\d+)?")
_ROLES = {"Q": "query", "K": "key", "V": "value"}


def build_formula(write: Callable[[Notation], str], decimals: int = 3) -> responses.FormulaView:
    """Write a formula for the eye and for the ear."""
    written = write(MathMLNotation(decimals))
    root = ElementTree.fromstring(f"<math>{written}</math>")  # noqa: S314 - we wrote it ourselves
    return responses.FormulaView(tree=_mathml_tree(root), text=write(TextNotation(decimals)))


def matrix_role(key: str) -> str:
    """Say whether a matrix has to do with queries, keys or values alone.

    >>> matrix_role("W_Q"), matrix_role("attention.K"), matrix_role("scores")
    ('query', 'key', '')
    """
    match = _ROLE.fullmatch(key)
    return _ROLES[match[1]] if match else ""


def _mathml_tree(node: ElementTree.Element) -> responses.MarkupTree:
    attributes, words = dict(node.attrib), node.text or ""
    if node.tag == "mi" and words in _ROLES:
        attributes["class"] = _ROLES[words]
    children: list[object] = [words] if words else []
    for child in node:
        children += [_mathml_tree(child), *([child.tail] if child.tail else [])]
    if node.tag.startswith("msub") and "".join(node[0].itertext()) in ("W", "b"):
        letter = "".join(node[1].itertext())
        attributes |= {"class": _ROLES[letter]} if letter in _ROLES else {}
    return [node.tag, attributes, *children]


_SVG = "{http://www.w3.org/2000/svg}"


def picture_tree(picture: Picture) -> MarkupTree:
    """Take a picture apart: an element's name, its attributes, then texts and further trees."""
    written = picture.svg(styled=False)
    return _svg_tree(ElementTree.fromstring(written))  # noqa: S314 - we wrote it ourselves


def _svg_tree(node: ElementTree.Element) -> MarkupTree:
    attributes: Mapping[str, str] = node.attrib
    words = [node.text] if node.text and node.text.strip() else []
    return [node.tag.removeprefix(_SVG), dict(attributes), *words, *map(_svg_tree, node)]
