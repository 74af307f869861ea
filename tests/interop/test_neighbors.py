"""The pages of programs that read what we export, run where these programs are installed."""

import pytest
from commands import ROOT, split

from documents import read_blocks
from workings.cli import main

PACKAGES = {"bertviz": "bertviz", "transformerlens": "transformer_lens"}


@pytest.mark.slow
# BertViz does not close its script.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("page", PACKAGES)
def test_page_runs(page, transformers, tmp_path, monkeypatch):
    del transformers
    pytest.importorskip(PACKAGES[page])
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for block in read_blocks(ROOT / "docs" / "interop" / f"{page}.md"):
        if block.language == "python":
            exec(compile(block.text, f"{page}.md:{block.line}", "exec"), names)  # noqa: S102
        for line in block.commands() if block.language == "sh" else ():
            verb, *words = split(line)[1:]
            short = ["--train.epochs", "1"] if verb == "train" else []
            assert main([verb, *words, *short]) == 0
