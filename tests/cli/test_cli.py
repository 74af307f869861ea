"""The command line as a user meets it: in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from workings import __version__
from workings.cli import VERBS

ROOT = Path(__file__).parents[2]


def workings(*arguments: str, code: int = 0, **options: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "workings", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=ROOT,
        check=False,
        **options,
    )
    assert done.returncode == code, done.stderr
    return done


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], *([v, "--help"] for v in VERBS)])
def test_help_and_version_import_neither_torch_nor_numpy(arguments):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "workings", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    imported = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()}
    assert "workings.cli" in imported
    assert not {"torch", "numpy", "rich"} & imported
    assert done.stdout.strip()


def test_version():
    assert workings("--version").stdout == f"workings {__version__}\n"


def test_learners_need_no_torch():
    program = (
        "import sys; sys.modules['torch'] = sys.modules['jaxtyping'] = None\n"
        "from workings.cli import main\n"
        "sys.exit(main(['solve', 'lectures/L0-example-2.toml']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert "weights" in done.stdout


def test_what_needs_torch_says_how_to_get_it():
    program = "import sys; sys.modules['torch'] = None\nfrom workings import attend"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert 'pip install "workings[models]"' in done.stderr.splitlines()[-1]


def test_solve_writes_one_cell_out():
    message = workings("solve", "lectures/L2-self.toml", "--cell", "scores,2,3").stdout
    assert message.endswith("2·2 + 2·3 + 2·1 = 12\n")
    message = workings("solve", "lectures/L2-self.toml", "--cell", "weights,1,2").stdout
    assert message.endswith("e⁴/(e²+e⁴+e⁴) = 0.468\n")


def test_check_says_by_its_status_whether_something_is_wrong(tmp_path):
    workings("check", "lectures/L2-cross.toml", code=0)
    done = workings("check", "lectures/L2-self.toml", code=1)
    assert "18" in done.stdout
    assert "12" in done.stdout
    bad = tmp_path / "bad.toml"
    bad.write_text("kind = 'atention'\n")
    done = workings("check", str(bad), "lectures/L2-self.toml", code=2)
    assert "did you mean 'attention'?" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "18" in done.stdout  # the other file is still checked


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["solve", "no-such-file.toml"], "no-such-file.toml"),
        (["solve", "."], "."),
        (["solve", "lectures/L2-self.toml", "--cell", "scores"], "scores,2,3"),
        (["solve", "lectures/L2-self.toml", "--cell", "scroes,1,1"], "did you mean 'scores'?"),
        (["solve", "lectures/L2-self.toml", "--cell", "scores,4,1"], "3×3"),
        (["solve", "lectures/L2-self.toml", "--decimals", "99"], "from 0 to 15"),
        (["solve", "lectures/L2-self.toml", "--out", "no/such/folder/x"], "no/such/folder"),
        (["solve", "lectures/L2-self.toml", "--threads", "0"], "threads"),
    ],
)
def test_a_users_mistake_is_told_in_two_lines_at_most(arguments, message):
    done = workings(*arguments, code=2)
    assert message in done.stderr
    assert len(done.stderr.splitlines()) <= 2
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("verb", "message"),
    [
        ("trian", "did you mean 'train'?"),
        ("Solve", "did you mean 'solve'?"),
        ("zebra", "expected one of solve, check"),
        ("", "expected one of solve, check"),
    ],
)
def test_a_wrong_verb_is_told_in_a_line(verb, message):
    done = workings(verb, "lectures/L2-self.toml", "--train.epochs", "3", code=2)
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"workings: {verb}: no such verb: {message}")


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        (("--seed", "-3"), "seed = -3"),
        (("--train.epochs", "0"), "epochs = 0"),
        (("--epochs", "3"), "did you mean --train.epochs"),
    ],
)
def test_a_recipes_key_may_stand_before_the_recipe(flag, message):
    for order in ((*flag, "recipes/emoji.toml"), ("recipes/emoji.toml", *flag)):
        done = workings("train", *order, code=2)
        assert message in done.stderr


@pytest.mark.parametrize("verb", ["train", "compare"])
def test_a_recipes_value_may_have_spaces(verb):
    changes = (
        ("--data.set", "no such.csv", "--train.epochs=0"),
        ("--data.set=a b.csv", "--train.epochs", "0"),
    )
    for some in changes:
        for order in ((*some, "recipes/emoji.toml"), ("recipes/emoji.toml", *some)):
            assert "epochs = 0" in workings(verb, *order, code=2).stderr


@pytest.mark.parametrize("verb", ["train", "summary"])
def test_what_is_wrong_with_a_recipe_is_told_without_torch(verb):
    program = "import sys; sys.modules['torch'] = None\nfrom workings.cli import main\nmain()"
    command = [sys.executable, "-c", program, verb, "recipes/emoji.toml", "--epochs", "3"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert "did you mean --train.epochs" in done.stderr


def test_debug_shows_the_traceback():
    done = workings("solve", "no-such-file.toml", "--debug", code=1)
    assert "Traceback" in done.stderr


def test_nobodys_text_can_steer_the_terminal(tmp_path):
    evil = tmp_path / "evil.toml"
    evil.write_text(
        'title = "\\u001b[2Jgone \\u202e"\ntokens = ["\\u001b]0;x\\u0007"]\n[given]\nX = [[1]]\n'
    )
    done = workings("solve", str(evil))
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout
    evil.write_text('kind = "\\u001b[31m"\n')
    assert "\x1b" not in workings("solve", str(evil), code=2).stderr


def test_a_reader_that_leaves_early_is_no_error():
    program = f"{sys.executable} -m workings check --json lectures/*.toml | head -n 0"
    done = subprocess.run(
        program, shell=True, capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.stderr == ""


def test_any_code_page_will_do():
    for encoding in ("cp1252", "ascii", "utf-8"):
        environment = {**os.environ, "PYTHONIOENCODING": encoding}
        done = subprocess.run(
            [sys.executable, "-m", "workings", "solve", "lectures/L2-self.toml"],
            capture_output=True,
            cwd=ROOT,
            env=environment,
            check=True,
        )
        assert "scores = Q Kᵀ" in done.stdout.decode("utf-8")


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "recipes/emoji.toml"],
        ["summary", "recipes/emoji.toml"],
        ["predict", "runs/x", "text"],
        ["explain", "runs/x", "text"],
        ["evaluate", "runs/x"],
        ["resume", "runs/x"],
    ],
)
def test_a_verb_that_needs_torch_says_how_to_get_it(arguments):
    program = (
        "import sys; sys.modules['torch'] = None\n"
        f"from workings.cli import main\nsys.exit(main({arguments!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 2
    assert done.stderr == 'workings: torch is missing: pip install "workings[models]"\n'


def test_json_holds_nothing_that_steers_a_terminal(tmp_path):
    evil = tmp_path / "evil.toml"
    evil.write_text('title = "\\u009b31m\\u202e"\n[given]\nX = [[1]]\n', encoding="utf-8")
    assert workings("check", "--json", str(evil)).stdout.isascii()


@pytest.mark.parametrize("out", ["", ".", "/", ".."])
def test_out_names_a_file(out):
    done = workings("solve", "lectures/L2-self.toml", "--out", out, code=2)
    assert "name a file" in done.stderr


def test_one_page_is_made_of_one_file():
    files = ["lectures/L2-self.toml", "lectures/L2-cross.toml"]
    assert "one file" in workings("check", *files, "--format", "html", code=2).stderr


def test_a_cell_is_counted_in_ordinary_digits():
    assert (
        "scores,2,3"
        in workings("solve", "lectures/L2-self.toml", "--cell", "scores,²,1", code=2).stderr
    )


def test_what_was_found_is_told_even_if_nobody_reads_on():
    program = (
        f"{sys.executable} -m workings check --json lectures/*.toml | true; exit ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", program], cwd=ROOT, check=False)
    assert done.returncode == 1
