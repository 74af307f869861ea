"""Read documents of every format into lines of plain text and grids of cells."""

from workings.problems.documents.sources.base import Grid, Line, Place, Source
from workings.problems.documents.sources.formats import read_source

__all__ = ["Grid", "Line", "Place", "Source", "read_source"]
