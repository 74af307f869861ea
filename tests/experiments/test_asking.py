import json

import pytest

from workings.cli import main
from workings.errors import UserError
from workings.experiments import QUESTIONS, ask


def test_every_question_is_listed(capsys):
    assert main(["why"]) == 0
    told = capsys.readouterr().out
    assert all(name in told and question in told for name, question in QUESTIONS.items())


def test_a_question_that_nobody_asked():
    with pytest.raises(UserError, match=r"^no question 'scal': did you mean 'scale'\?$"):
        ask("scal")


@pytest.mark.parametrize("seed", [-1, 2**70])
def test_a_seed_that_nothing_can_be_drawn_from(seed):
    with pytest.raises(UserError, match="seed = "):
        ask("gradient", seed)


def test_a_picture_is_refused_before_anything_is_computed(capsys):
    for out, told in (("scale.doc", ".svg"), ("nowhere/scale.svg", "no folder nowhere")):
        assert main(["why", "scale", "--out", out]) == 2
        caught = capsys.readouterr()
        assert told in caught.err
        assert not caught.out


def test_an_answer_is_told_and_drawn(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["why", "scale"]) == 0
    assert "What would change it" in capsys.readouterr().out
    assert next(tmp_path.iterdir()).read_text().startswith("<svg")
    assert main(["why", "scale", "--json"]) == 0
    row, *_ = json.loads(capsys.readouterr().out)["figures"]
    assert [name.strip() for name in row] == list(row)


def test_questions_and_pictures_in_other_forms(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["why", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == dict(QUESTIONS)
    assert main(["why", "sigmoid", "--out", "s.PNG"]) == 0
    assert (tmp_path / "s.PNG").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.parametrize("name", QUESTIONS)
def test_every_question_is_answered_in_two_or_three_lines_with_figures_and_a_picture(name):
    found = ask(name)
    assert found.question == QUESTIONS[name]
    assert 2 <= len(found.lines) <= 3
    assert all(any(c.isdigit() for c in line) for line in found.lines[:2])
    assert {len(row) for row in found.rows} == {len(found.header)}
    assert found.caveats in found.text(width=10**6)
    assert found.svg().startswith("<svg")
