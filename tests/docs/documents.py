"""The code blocks of the documents, and the commands mentioned in their text."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from commands import ROOT
from markdown_it import MarkdownIt

DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
_NOT_RUN = re.compile(r"<!-- not run: (\S.*?) -->")


@dataclass(frozen=True)
class Block:
    """A fenced block. `not_run` is the reason from the comment before it, or None."""

    line: int
    language: str
    name: str
    """the file name in the fence, as in ```toml mine.toml"""
    text: str
    not_run: str | None

    def commands(self) -> list[str]:
        """Return the commands of a shell block; continued lines are joined."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [line.strip() for line in lines if shlex.split(line, comments=True)]


def read_blocks(document: Path) -> list[Block]:
    """Return every fenced block of a document."""
    blocks = []
    not_run = None
    for token in MarkdownIt("commonmark").parse(document.read_text(encoding="utf-8")):
        if token.type == "fence":
            language, _, name = token.info.strip().partition(" ")
            blocks.append(Block(token.map[0] + 1, language, name, token.content, not_run))
        if not token.hidden:
            match = _NOT_RUN.match(token.content) if token.type == "html_block" else None
            not_run = match[1] if match else None
    return blocks


def inline_commands(document: Path) -> list[str]:
    """Return every `workings …` in the text, outside of blocks."""
    tokens = MarkdownIt("commonmark").enable("table").parse(document.read_text(encoding="utf-8"))
    inside = (child for token in tokens for child in token.children or ())
    codes = (child.content for child in inside if child.type == "code_inline")
    return [code for code in codes if re.match(r"workings [a-z]", code)]
