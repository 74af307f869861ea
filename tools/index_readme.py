"""Make the README's links absolute in the package's metadata, for its page on the package index.

Hatchling runs this when it builds. The README itself keeps relative links, which work in a clone.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)\s]+)\)")


class IndexReadmeHook(MetadataHookInterface):
    """Sets the field `readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the README, with links to the files of this version's tag."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository, tag = metadata["urls"]["Repository"], f"v{metadata['version']}"
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": make_links_absolute(text, repository, tag),
        }


def make_links_absolute(text: str, repository: str, tag: str) -> str:
    """Point relative links at files of a repository, and images at their raw content."""

    def replace(match: re.Match[str]) -> str:
        bang, label, path = match.groups()
        return f"{bang}[{label}]({repository}/{'raw' if bang else 'blob'}/{tag}/{path})"

    return RELATIVE_LINK.sub(replace, text)
