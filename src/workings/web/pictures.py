"""Pictures as trees that a page can build without parsing."""

from collections.abc import Mapping
from xml.etree import ElementTree

from workings.views.picture import Picture
from workings.web.told import Tree

_SVG = "{http://www.w3.org/2000/svg}"


def tree(picture: Picture) -> Tree:
    """Take a picture apart: an element's name, its attributes, then texts and further trees."""
    written = picture.svg(styled=False)
    return _tree(ElementTree.fromstring(written))  # noqa: S314 - we wrote it ourselves


def _tree(node: ElementTree.Element) -> Tree:
    attributes: Mapping[str, str] = node.attrib
    words = [node.text] if node.text and node.text.strip() else []
    return [node.tag.removeprefix(_SVG), dict(attributes), *words, *map(_tree, node)]
