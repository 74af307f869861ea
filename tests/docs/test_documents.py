"""What the README and docs/ tell people to type works as it stands.

Every document is a session: its blocks are run in order, in a folder of its own beside the
repository's recipes and lectures. In the default suite trainings are cut short and built-in sets
are small; `make test-all` runs every document to the letter. A block that cannot be run is marked
with the reason, and its commands are still parsed.
"""

import json
import os
import re
import shutil
import tomllib

import pytest
from commands import ROOT, expanded, parsed, split
from documents import DOCUMENTS, blocks, mentioned

from workings.cli import VERBS, _parser, main
from workings.data import captions, pairs, sets, texts
from workings.data.splits import Splits

LANGUAGES = {"", "bash", "json", "python", "sh", "toml"}  # bash: a script for elsewhere
GOES_ON = ("recipes", "lectures", "docs", "results")  # what a session finds beside it
COMES = {"why"}  # verbs that documents speak of, and that are on their way
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
    actions = _parser()._subparsers._group_actions[0].choices
    for code in mentioned(document):
        verb, *rest = code.split()[1:]
        assert verb in VERBS or verb in COMES, code
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

    def __init__(self, capsys, shorten=None):
        self.capsys, self.shorten = capsys, shorten
        self.names = {"__name__": "__main__"}

    def follow(self, document):
        for block in blocks(document):
            if block.name:
                with open(block.name, "w", encoding="utf-8") as file:
                    file.write(block.text)
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
        if self.shorten and words[0] in ("train", "compare") and "--repeat" not in words:
            self.shorten(words, main)
        else:
            status = main([*words, "--threads", "1"])
            found = self.capsys.readouterr()
            assert status in ((0, 1) if words[0] in FINDS else (0,)), f"{line}\n{found.err}"
            if output:
                with open(output, "w", encoding="utf-8") as file:
                    file.write(found.out)
        left = getattr(parsed(words), "out", None)
        assert left is None or os.path.exists(left), line


@pytest.fixture
def session(tmp_path, monkeypatch, capsys):
    for name in GOES_ON:
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    return Session(capsys)


@pytest.fixture(scope="module")
def shorter(tmp_path_factory):
    """Small built-in sets, and trainings of a few steps: each recipe is trained once for all."""
    kept = tmp_path_factory.mktemp("kept")
    whole = sets.BUILT_IN["emoji-languages"]()
    few = Splits(whole.name, whole.train[:560], whole.validation[:140], whole.test[:140])
    names = pairs.emoji_names
    trained = {}

    def shorten(words, main):
        arguments = parsed(words)
        steps = ["--data.steps", "3"] if _is_language(arguments) else []
        short = [*words, "--train.epochs", "1", *steps, "--threads", "1"]
        out = arguments.out or f"runs/{arguments.recipe.split('/')[-1].removesuffix('.toml')}"
        key = " ".join(word for word in words if word != arguments.out)
        if words[0] == "train" and "recipes/" in key and key in trained:
            shutil.copytree(trained[key], out)
            return
        assert main(short) == 0, words
        if words[0] == "train":
            trained[key] = shutil.copytree(out, kept / str(len(trained)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(kept / "cache"))
        patch.setattr(texts, "MOST_BUILT_IN", 120_000)
        patch.setitem(sets.BUILT_IN, "emoji-languages", lambda: few)
        patch.setattr(pairs, "emoji_names", lambda *a, **k: _some(names(*a, **k)))
        for part in captions.SCENE_COUNTS:
            patch.setitem(captions.SCENE_COUNTS, part, 40)
        yield shorten


def _some(parts):
    return {part: some[: 400 if part == "train" else 24] for part, some in parts.items()}


def _is_language(arguments):
    recipe = getattr(arguments, "recipe", None)
    return bool(recipe) and 'task  = "language"' in open(recipe, encoding="utf-8").read()


@by_name
def test_a_document_can_be_followed(document, session, shorter):
    session.shorten = shorter
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
