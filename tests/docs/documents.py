"""Documents as sessions: their blocks, in order, in a folder of their own."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from commands import ROOT
from markdown_it import MarkdownIt

DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
_MARK = re.compile(r"<!-- not run: (\S.*?) -->")


@dataclass(frozen=True)
class Block:
    """A fenced block. `not_run`: why it is only looked at, from a comment right before it."""

    line: int
    language: str
    name: str
    """the file that it is, where the fence names one: ```toml mine.toml"""
    text: str
    not_run: str | None

    def commands(self) -> list[str]:
        """Each command of a block of sh, whole: lines that go on are joined."""
        whole = self.text.replace("\\\n", " ").splitlines()
        return [line.strip() for line in whole if shlex.split(line, comments=True)]


def blocks(document: Path) -> list[Block]:
    """Find every fenced block with its mark."""
    found = []
    mark = None
    for token in MarkdownIt("commonmark").parse(document.read_text(encoding="utf-8")):
        if token.type == "fence":
            language, _, name = token.info.strip().partition(" ")
            found.append(Block(token.map[0] + 1, language, name, token.content, mark))
        if not token.hidden:
            said = _MARK.match(token.content) if token.type == "html_block" else None
            mark = said[1] if said else None
    return found


def mentioned(document: Path) -> list[str]:
    """Find what stands in the text as `workings …`, outside of blocks."""
    tokens = MarkdownIt("commonmark").enable("table").parse(document.read_text(encoding="utf-8"))
    inside = (child for token in tokens for child in token.children or ())
    codes = (child.content for child in inside if child.type == "code_inline")
    return [code for code in codes if re.match(r"workings [a-z]", code)]
