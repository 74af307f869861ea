"""The workbench: a small server over the library, and a page of plain ES modules."""
