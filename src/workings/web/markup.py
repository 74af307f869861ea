"""Formulas (MathML) and pictures (SVG) as trees that the page builds without parsing markup."""

import re
from collections.abc import Callable
from xml.etree import ElementTree

from workings.problems.notation import MathMLNotation, Notation, TextNotation
from workings.render.pictures import Picture
from workings.web import responses
from workings.web.responses import MarkupTree

_ROLE = re.compile(r"(?:.*\.)?(?:[Wb]_)?([QKV])(?:\.\d+)?")
_ROLES = {"Q": "query", "K": "key", "V": "value"}


def build_formula(write: Callable[[Notation], str], decimals: int = 3) -> responses.FormulaView:
    """Return a formula as a MathML tree and as text for screen readers."""
    mathml = write(MathMLNotation(decimals))
    root = ElementTree.fromstring(f"<math>{mathml}</math>")  # noqa: S314 - our own markup
    return responses.FormulaView(tree=_mathml_tree(root), text=write(TextNotation(decimals)))


def matrix_role(key: str) -> str:
    """Return `query`, `key` or `value` for a matrix of one of them, otherwise "".

    >>> matrix_role("W_Q"), matrix_role("attention.K"), matrix_role("scores")
    ('query', 'key', '')
    """
    match = _ROLE.fullmatch(key)
    return _ROLES[match[1]] if match else ""


def _mathml_tree(node: ElementTree.Element) -> responses.MarkupTree:
    """Return an element as a tree; letters of queries, keys and values get a class."""
    attributes, text = dict(node.attrib), node.text or ""
    if node.tag == "mi" and text in _ROLES:
        attributes["class"] = _ROLES[text]
    children: list[object] = [text] if text else []
    for child in node:
        children += [_mathml_tree(child), *([child.tail] if child.tail else [])]
    if node.tag.startswith("msub") and "".join(node[0].itertext()) in ("W", "b"):
        letter = "".join(node[1].itertext())
        attributes |= {"class": _ROLES[letter]} if letter in _ROLES else {}
    return [node.tag, attributes, *children]


_SVG = "{http://www.w3.org/2000/svg}"


def picture_tree(picture: Picture) -> MarkupTree:
    """Return a picture as a tree: an element's name, its attributes, then texts and trees."""
    svg = picture.svg(styled=False)
    return _svg_tree(ElementTree.fromstring(svg))  # noqa: S314 - our own markup


def _svg_tree(node: ElementTree.Element) -> MarkupTree:
    texts = [node.text] if node.text and node.text.strip() else []
    return [node.tag.removeprefix(_SVG), dict(node.attrib), *texts, *map(_svg_tree, node)]
