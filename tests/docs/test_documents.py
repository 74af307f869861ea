"""What the README and docs/ tell people to type works as it stands.

Every document is a session: its blocks are run in order, in a folder of its own beside the
repository's recipes and lectures. In the default suite trainings are cut short and built-in sets
are small; `make test-all` runs every document to the letter. A block that cannot be run is marked
with the reason, and its commands are still parsed.
"""

import json
import re
import shutil
import tomllib
from pathlib import Path

import pytest
from commands import ROOT, expanded, parsed, split
from documents import DOCUMENTS, blocks, mentioned

from workings.cli import VERBS, _build_parser, main
from workings.data import captions, corpora, datasets, parallel
from workings.data.splits import Splits
from workings.recipes import read_recipe

LANGUAGES = {"", "bash", "json", "python", "sh", "toml"}  # bash: a script for elsewhere
GOES_ON = ("recipes", "lectures", "docs", "results")  # what a session finds beside it
FINDS = ("check", "diff")  # verbs that end with 1 where they found something
by_name = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)


@by_name
def test_commands_can_be_given(document):
    for block in blocks(document):
        assert block.language in LANGUAGES, f"{document}:{block.line}: ```{block.language}"
        assert block.language != "bash" or block.not_run
        for line in block.commands() if block.language == "sh" else ():
            words = split(line)
            if words[0] == "make":
                targets = (ROOT / "Makefile").read_text(encoding="utf-8")
                assert all(re.search(rf"^{word}:", targets, re.MULTILINE) for word in words[1:])
            elif "workings" in words:  # by itself, or behind torchrun … -m
                parsed(words[words.index("workings") + 1 :])
            else:
                assert block.not_run, f"{document}:{block.line}: {line}"


@by_name
def test_verbs_and_options_in_the_text_are_there(document):
    actions = _build_parser()._subparsers._group_actions[0].choices
    for code in mentioned(document):
        verb, *rest = code.split()[1:]
        assert verb in VERBS, code
        for option in re.findall(r"(?<!\S)--[a-z][a-z_-]*(?![\w.-])", " ".join(rest)):
            assert option in actions[verb]._option_string_actions, code


@by_name
def test_data_can_be_read(document):
    for block in blocks(document):
        if block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "json":
            json.loads(block.text)


class Session:
    """A folder in which a document is followed."""

    short = False  # whether trainings are cut short

    def __init__(self, capsys, train):
        self.capsys, self.train = capsys, train
        self.names = {"__name__": "__main__"}

    def follow(self, document):
        for block in blocks(document):
            if block.name:
                Path(block.name).write_text(block.text, encoding="utf-8")
            elif block.language == "python" and not block.not_run:
                code = compile(block.text, f"{document}:{block.line}", "exec")
                exec(code, self.names)  # noqa: S102 - our own documents
            elif block.language == "sh" and not block.not_run:
                for line in block.commands():
                    if line.startswith("workings "):
                        self.give(line)

    def give(self, line):
        """Run a command in this process, which has torch already."""
        words = split(line)[1:]
        words, _, output = (words[:-2], *words[-2:]) if ">" in words else (words, "", "")
        words = expanded(words)
        if self.short and words[0] == "compare":
            return  # which trains in processes of its own: to the letter, or not at all
        if words[0] == "train" and "--repeat" not in words:
            self.train(words, self.short)
            return
        status = main([*words, "--threads", "1"])
        found = self.capsys.readouterr()
        assert status in ((0, 1) if words[0] in FINDS else (0,)), f"{line}\n{found.err}"
        given = vars(parsed(words))
        left = given.get("out") or given.get("problem")
        assert Path(left).exists() if left else found.out + found.err, line
        if output:
            Path(output).write_text(found.out, encoding="utf-8")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """What was trained for one document serves the next: a folder, and what is in it."""
    return tmp_path_factory.mktemp("kept"), {}


@pytest.fixture(scope="module")
def few():
    whole = datasets.BUILTIN_DATASETS["emoji-languages"]()
    return Splits(whole.name, whole.train[:280], whole.validation[:70], whole.test[:70])


@pytest.fixture
def small_sets(kept, few, monkeypatch):
    names = parallel.load_emoji_names
    monkeypatch.setenv("XDG_CACHE_HOME", str(kept[0] / "cache"))
    monkeypatch.setattr(corpora, "MAX_BUILTIN_CHARACTERS", 80_000)
    monkeypatch.setitem(datasets.BUILTIN_DATASETS, "emoji-languages", lambda: few)
    monkeypatch.setattr(parallel, "load_emoji_names", lambda *a, **k: _some(names(*a, **k)))
    for part in captions.SCENES_PER_SPLIT:
        monkeypatch.setitem(captions.SCENES_PER_SPLIT, part, 16)


def _some(parts):
    return {part: some[: 200 if part == "train" else 24] for part, some in parts.items()}


@pytest.fixture
def train(kept):
    """Train what a command asks for, unless a document before has asked for the same."""
    folder, trained = kept

    def once(words, short):
        arguments = parsed(words)
        out = Path(arguments.out or f"runs/{Path(arguments.recipe).stem}")
        key = short, Path(arguments.recipe).read_text(encoding="utf-8"), *arguments.changes
        if key in trained:
            shutil.copytree(trained[key], out)
            return
        steps = ["--data.eval_every", "3"] if _is_language(arguments) else []
        changes = ["--train.epochs", "1", *steps] if short else []
        assert main([*words, *changes, "--threads", "1"]) == 0, words
        trained[key] = shutil.copytree(out, folder / str(len(trained)))

    return once


def _is_language(arguments):
    return read_recipe(arguments.recipe).task == "language"


@pytest.fixture
def session(tmp_path, monkeypatch, capsys, train):
    for name in GOES_ON:
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    return Session(capsys, train)


@by_name
@pytest.mark.usefixtures("small_sets")
def test_a_document_can_be_followed(document, session):
    session.short = True
    session.follow(document)


@pytest.mark.slow
@by_name
def test_a_document_can_be_followed_to_the_letter(document, session):
    session.follow(document)


@pytest.mark.slow
def test_the_guide_to_classifying_leaves_what_it_promises(session, tmp_path):
    session.follow(ROOT / "docs" / "classify.md")
    for name in ("runs/mine/report.html", "why.html", "runs/compare/compare.html"):
        assert (tmp_path / name).is_file()
    predictions = (tmp_path / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    names = (tmp_path / "names.csv").read_text(encoding="utf-8").splitlines()
    assert len(predictions) == len(names) - 1
