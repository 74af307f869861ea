"""The questions, how they are asked, and the page that answers them."""

import json
import re
from pathlib import Path

import pytest

from workings.cli import main
from workings.errors import UserError
from workings.experiments import QUESTIONS, ask

DOCS = Path(__file__).parents[2] / "docs"


def test_every_question_is_listed(capsys):
    assert main(["why"]) == 0
    output = capsys.readouterr().out
    assert all(name in output and question in output for name, question in QUESTIONS.items())
    assert main(["why", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == dict(QUESTIONS)


def test_unknown_question_is_refused_with_a_suggestion():
    with pytest.raises(UserError, match=r"^no question 'scal': did you mean 'scale'\?$"):
        ask("scal")


@pytest.mark.parametrize("seed", [-1, 2**70])
def test_seed_out_of_range_is_refused(seed):
    with pytest.raises(UserError, match="seed = "):
        ask("gradient", seed)


def test_wrong_picture_path_is_refused_before_anything_is_computed(capsys):
    for out, message in (("scale.doc", ".svg"), ("nowhere/scale.svg", "no such folder: nowhere")):
        assert main(["why", "scale", "--out", out]) == 2
        captured = capsys.readouterr()
        assert message in captured.err
        assert not captured.out


def test_answer_as_text_svg_png_and_json(tmp_path, monkeypatch, capsys, short_training):
    monkeypatch.chdir(tmp_path)
    assert main(["why", "scale"]) == 0
    assert "What would change it" in capsys.readouterr().out
    assert next(tmp_path.iterdir()).read_text().startswith("<svg")
    assert main(["why", "scale", "--json"]) == 0
    row, *_ = json.loads(capsys.readouterr().out)["figures"]
    assert [name.strip() for name in row] == list(row)
    assert main(["why", "sigmoid", "--out", "s.PNG"]) == 0
    assert (tmp_path / "s.PNG").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", QUESTIONS)
def test_answer_has_two_or_three_lines_with_figures_and_a_picture(name, short_training):
    finding = ask(name)
    assert finding.question == QUESTIONS[name]
    assert 2 <= len(finding.lines) <= 3
    assert all(any(c.isdigit() for c in line) for line in finding.lines[:2])
    assert {len(row) for row in finding.rows} == {len(finding.header)}
    assert finding.caveats in finding.text(width=10**6)
    assert finding.svg().startswith("<svg")


def test_page_has_every_question_with_its_picture():
    page = (DOCS / "why.md").read_text(encoding="utf-8")
    assert re.findall(r"^## `(\w+)`: (.*)$", page, re.MULTILINE) == list(QUESTIONS.items())
    pictures = re.findall(r"^!\[.+\]\(why/(\w+)\.svg\)$", page, re.MULTILINE)
    assert pictures == list(QUESTIONS)
    for name in QUESTIONS:
        assert (DOCS / "why" / f"{name}.svg").read_text(encoding="utf-8").startswith("<svg")
    assert page.count("What would change it: ") == len(QUESTIONS)
