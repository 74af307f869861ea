"""The command line in a process of its own."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from workings import __version__
from workings.cli import VERBS, main
from workings.errors import install_command

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


def test_verb_imports_no_other_verb():
    program = (
        "import sys\nfrom workings.cli import VERBS, main\n"
        "main(['solve', 'lectures/L2-self.toml'])\n"
        "sys.stderr.write(' '.join(v for v in VERBS if f'workings.cli.{v}' in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stderr == "solve"


def test_help_lists_every_verb():
    output = workings("--help").stdout
    assert tuple(re.findall(r"^ {4}(\w+)", output, flags=re.MULTILINE)) == VERBS


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


def test_api_that_needs_torch_names_the_extra():
    program = "import sys; sys.modules['torch'] = None\nfrom workings import attend"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert install_command("models") in done.stderr.splitlines()[-1]


def test_check_of_a_document(tmp_path):
    slide = tmp_path / "slide.md"
    slide.write_text("X = [[1, 0], [0, 2]] | A = [[1, 0], [0.06, 0.94]]", encoding="utf-8")
    done = workings("check", "--from", str(slide), code=0)
    heading, verdict, *_, reading, counts = done.stdout.splitlines()
    assert heading == f"{slide}, line 1: example 1, attention"
    assert verdict == '✓ right, if the mask is causal: declare mask = "causal"'
    assert reading == "  read as: rows, ÷√2, causal"
    assert counts == "2 matrices found, 2 judged"
    report, document = map(
        json.loads, workings("check", "--json", "--from", str(slide)).stdout.splitlines()
    )
    assert report["if"] == 'the mask is causal: declare mask = "causal"'
    assert (report["line"], report["kind"]) == (1, "attention")
    assert document == {"document": str(slide), "matrices": 2, "judged": 2, "unread": []}
    slide.write_text("X = [[1, 0], [0, 2]] T = [[1, 0], [0, 4]]", encoding="utf-8")
    done = workings("check", "--from", str(slide), code=2)
    assert done.stdout == "1 matrix found, 0 judged, 1 not read: line 1\n"
    assert "no worked example found" in done.stderr


def test_document_from_standard_input_and_as_problem_files(tmp_path):
    slide = tmp_path / "two.md"
    slide.write_text(
        "# One\nX = [[1, 0], [0, 2]]\nscores = [[1, 0], [0, 4]]\n"
        "# Two\nX = [[3, 1], [1, 1]]\nscores = [[10, 4], [4, 3]]\n",
        encoding="utf-8",
    )
    done = workings("check", "--from", "-", code=1, input=slide.read_text(encoding="utf-8"))
    assert "-, line 5: example 2, attention" in done.stdout
    workings("check", str(slide), "--write", str(tmp_path / "problems"), code=1)
    workings("check", str(tmp_path / "problems" / "two-1.toml"), code=0)
    workings("check", str(tmp_path / "problems" / "two-2.toml"), code=1)
    page = tmp_path / "two.html"
    workings("check", "--from", str(slide), "--format", "html", "--out", str(page), code=1)
    assert 'class="wrong first"' in page.read_text(encoding="utf-8")


def test_solve_cell():
    output = workings("solve", "lectures/L2-self.toml", "--cell", "scores,2,3").stdout
    assert output.endswith("2·2 + 2·3 + 2·1 = 12\n")
    output = workings("solve", "lectures/L2-self.toml", "--cell", "weights,1,2").stdout
    assert output.endswith("e⁴/(e²+e⁴+e⁴) = 0.468\n")


def test_status_of_check(tmp_path):
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
def test_user_error_has_at_most_two_lines(arguments, message):
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
def test_unknown_verb_is_one_line_error(verb, message):
    done = workings(verb, "lectures/L2-self.toml", "--train.epochs", "3", code=2)
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"workings: {verb}: no such command: {message}")


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        (("--seed", "-3"), "seed = -3"),
        (("--train.epochs", "0"), "epochs = 0"),
        (("--epochs", "3"), "did you mean --train.epochs"),
    ],
)
def test_key_of_recipe_before_or_after_recipe(flag, message):
    for order in ((*flag, "recipes/emoji.toml"), ("recipes/emoji.toml", *flag)):
        done = workings("train", *order, code=2)
        assert message in done.stderr


@pytest.mark.parametrize("verb", ["train", "compare"])
def test_value_of_recipe_key_with_spaces(verb, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    changes = (
        ("--data.set", "no such.csv", "--train.epochs=0"),
        ("--data.set=a b.csv", "--train.epochs", "0"),
    )
    for options in changes:
        for order in ((*options, "recipes/emoji.toml"), ("recipes/emoji.toml", *options)):
            assert main([verb, *order]) == 2
            assert "epochs = 0" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["train", "summary"])
def test_recipe_error_needs_no_torch(verb):
    program = "import sys; sys.modules['torch'] = None\nfrom workings.cli import main\nmain()"
    command = [sys.executable, "-c", program, verb, "recipes/emoji.toml", "--epochs", "3"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert "did you mean --train.epochs" in done.stderr


def test_debug_shows_the_traceback():
    done = workings("solve", "no-such-file.toml", "--debug", code=1)
    assert "Traceback" in done.stderr


def test_control_characters_are_escaped(tmp_path):
    file = tmp_path / "file.toml"
    file.write_text(
        'title = "\\u001b[2Jgone \\u202e"\ntokens = ["\\u001b]0;x\\u0007"]\n[given]\nX = [[1]]\n'
    )
    done = workings("solve", str(file))
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout
    file.write_text('kind = "\\u001b[31m"\n')
    assert "\x1b" not in workings("solve", str(file), code=2).stderr


def test_closed_pipe_is_no_error():
    program = f"{sys.executable} -m workings check --json lectures/*.toml | head -n 0"
    done = subprocess.run(
        program, shell=True, capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.stderr == ""


def test_output_is_utf8_for_every_code_page():
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
def test_verb_that_needs_torch_names_the_extra(arguments):
    program = (
        "import sys; sys.modules['torch'] = None\n"
        f"from workings.cli import main\nsys.exit(main({arguments!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 2
    assert done.stderr == f"workings: torch is missing: {install_command('models')}\n"


def test_json_is_ascii(tmp_path):
    file = tmp_path / "file.toml"
    file.write_text(
        'title = "\\u009b31m\\u202e"\n[given]\nX = [[1]]\n[claim]\nscores = [[1]]\n',
        encoding="utf-8",
    )
    assert workings("check", "--json", str(file)).stdout.isascii()


@pytest.mark.parametrize("claim", ["", "[claim]", '[claim]\nscores = [["?"]]'])
def test_nothing_to_check_is_no_clean_bill(tmp_path, claim):
    file = tmp_path / "file.toml"
    file.write_text(f"[given]\nX = [[1]]\n{claim}\n", encoding="utf-8")
    done = workings("check", str(file), code=2)
    assert "nothing to check" in done.stderr
    assert "✓" not in done.stdout
    report = workings("check", "--json", str(file), code=2)
    assert json.loads(report.stdout)["verdict"] == "blank"
    assert 'class="is-right"' not in workings("check", "--format", "html", str(file), code=2).stdout


@pytest.mark.parametrize("out", ["", ".", "/", ".."])
def test_out_must_be_a_file(out):
    done = workings("solve", "lectures/L2-self.toml", "--out", out, code=2)
    assert "expected a file" in done.stderr


def test_html_report_takes_one_file():
    files = ["lectures/L2-self.toml", "lectures/L2-cross.toml"]
    assert "one file" in workings("check", *files, "--format", "html", code=2).stderr


def test_cell_needs_ascii_digits():
    assert (
        "scores,2,3"
        in workings("solve", "lectures/L2-self.toml", "--cell", "scores,²,1", code=2).stderr
    )


def test_status_of_check_with_closed_pipe():
    program = (
        f"{sys.executable} -m workings check --json lectures/*.toml | true; exit ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", program], cwd=ROOT, check=False)
    assert done.returncode == 1
