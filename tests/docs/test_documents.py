"""Every command in the README and docs/ works in an empty folder, with the package installed.

The blocks of a document are run in order with the wheel, not with the source tree. The default
suite shortens trainings and built-in data sets; `make test-all` runs every document in full. A
block that cannot be run states the reason, and its commands are still parsed.
"""

import json
import re
import tomllib

import pytest
from commands import ROOT, parse_command, split, split_redirection
from document_runner import DocumentRunner

from documents import DOCUMENTS, inline_commands, read_blocks
from workings.cli import VERBS, _build_parser

LANGUAGES = {"", "bash", "json", "python", "sh", "tex", "toml"}  # bash: a script for a cluster
by_name = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)


@by_name
def test_commands_parse(document):
    for block in read_blocks(document):
        assert block.language in LANGUAGES, f"{document}:{block.line}: ```{block.language}"
        assert block.language != "bash" or block.not_run
        for line in block.commands() if block.language == "sh" else ():
            words = split(line)
            if "workings" in words and words[:2] != ["docker", "build"]:  # or after torchrun … -m
                parse_command(split_redirection(words[words.index("workings") + 1 :])[0])
            else:
                assert block.not_run, f"{document}:{block.line}: {line}"


@by_name
def test_inline_commands_have_known_verbs_and_options(document):
    actions = _build_parser()._subparsers._group_actions[0].choices
    for code in inline_commands(document):
        verb, *rest = code.split()[1:]
        assert verb in VERBS, code
        for option in re.findall(r"(?<!\S)--[a-z][a-z_-]*(?![\w.-])", " ".join(rest)):
            assert option in actions[verb]._option_string_actions, code


@by_name
def test_toml_and_json_blocks_parse(document):
    for block in read_blocks(document):
        if block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "json":
            json.loads(block.text)


def _start_runner(package, *, short):
    runner = DocumentRunner(package, short=short)
    yield runner
    runner.close()


@pytest.fixture(scope="module")
def short_runner(installed_package):
    yield from _start_runner(installed_package, short=True)


@pytest.fixture(scope="module")
def full_runner(installed_package):
    yield from _start_runner(installed_package, short=False)


@by_name
def test_document_runs(document, short_runner, tmp_path):
    assert short_runner.run(document, tmp_path) == ""


@pytest.mark.slow
@by_name
def test_document_runs_in_full(document, full_runner, tmp_path):
    assert full_runner.run(document, tmp_path) == ""


@pytest.mark.slow
def test_classification_guide_writes_its_files(full_runner, tmp_path):
    assert full_runner.run(ROOT / "docs" / "classify.md", tmp_path) == ""
    for name in ("runs/mine/report.html", "why.html", "runs/compare/compare.html"):
        assert (tmp_path / name).is_file()
    predictions = (tmp_path / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    names = (tmp_path / "names.csv").read_text(encoding="utf-8").splitlines()
    assert len(predictions) == len(names) - 1
