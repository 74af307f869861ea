"""The completion scripts, in the shells themselves."""

import io
import shutil
import subprocess
from contextlib import redirect_stdout

import pytest

from workings.builtin import builtin_lectures, builtin_recipes
from workings.cli import VERBS, main

COMPLETE = """\
source completion.bash
COMP_WORDS=({words}) COMP_CWORD=$(({count} - 1))
_shtab_workings
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with three runs, a file, and the script for bash."""
    folder = tmp_path_factory.mktemp("completion")
    for run in ("runs/emoji", "runs/helo", "best"):
        (folder / run).mkdir(parents=True)
        (folder / run / "config.toml").touch()
    (folder / "plots").mkdir()
    (folder / "mine.toml").touch()
    with redirect_stdout(io.StringIO()) as script:
        assert main(["completion", "bash"]) == 0
    (folder / "completion.bash").write_text(script.getvalue(), encoding="utf-8", newline="\n")
    return folder


@pytest.fixture
def complete(folder):
    """Return what bash offers for the last word of a line."""
    if shutil.which("bash") is None:
        pytest.skip("no bash")

    def complete_words(*words):
        quoted = " ".join(f'"{word}"' for word in ("workings", *words))
        program = COMPLETE.format(words=quoted, count=len(words) + 1)
        done = subprocess.run(
            ["bash", "--norc", "-c", program], cwd=folder, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return set(done.stdout.split())

    return complete_words


def test_commands_and_options(complete):
    assert complete("") == set(VERBS)
    assert complete("so") == {"solve"}
    assert complete("solve", "L2-self", "--dec") == {"--decimals"}
    assert complete("solve", "L2-self", "--format", "l") == {"latex"}
    assert complete("train", "emoji", "--train.ep") == {"--train.epochs"}
    assert complete("recipes", "c") == {"copy"}


def test_recipes_and_files(complete):
    names = {name for name in builtin_recipes() if name.startswith("imdb-lstm")}
    assert complete("train", "imdb-lstm") == names > {"imdb-lstm"}
    assert complete("export", "run", "--to", "pe") == {"pegasus"}
    assert complete("train", "m") >= {"mine.toml", "multi30k-de-en-rnn"}
    assert complete("compare", "helo", "he") == {"helo"}
    assert complete("recipes", "copy", "") >= set(builtin_recipes())


def test_lectures(complete):
    assert complete("check", "L2-self", "L") == set(builtin_lectures())
    assert complete("solve", "L3-d") == {"L3-demo", "L3-dot-product"}


def test_run_folders(complete):
    assert complete("predict", "") == {"runs/emoji", "runs/helo", "best"}
    assert complete("predict", "ru") == {"runs/emoji", "runs/helo"}
    assert complete("train", "--repeat", "runs/e") == {"runs/emoji"}
    assert complete("predict", "pl") == {"plots"}


@pytest.mark.parametrize("shell", ["zsh", "tcsh"])
def test_script_of_another_shell(shell, tmp_path, capsys):
    assert main(["completion", shell]) == 0
    script = tmp_path / "_workings"
    script.write_text(capsys.readouterr().out, encoding="utf-8")
    assert "multi30k-de-en-rnn" in script.read_text(encoding="utf-8")
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    subprocess.run([shell, "-n", str(script)], check=True)
