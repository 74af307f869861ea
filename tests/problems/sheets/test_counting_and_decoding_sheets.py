"""Sheets on convolution, counting, decoding and texts: pleasant numbers, graded as written."""

from pathlib import Path

import numpy as np
import pytest

from workings import Problem
from workings.problems.sheets import make_sheet
from workings.problems.sheets.rounded_solution import nest_claims

KINDS = (
    *("conv1d", "batch_norm", "layers", "cost", "kv_cache"),
    *("sampling", "sentence", "beam_search", "bleu", "rouge_l", "edit_distance"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_problems_tell_their_mistakes_apart(kind: str) -> None:
    sheet = make_sheet(kind, count=2, seed=4)
    assert not any(exercise.confusions for exercise in sheet.exercises)
    assert len({str(exercise.table["given"]) for exercise in sheet.exercises}) == 2
    assert len(sheet.mistake_names) >= 5  # possible in every problem of this size


@pytest.mark.parametrize("kind", KINDS)
def test_a_planted_mistake_is_the_first_wrong_number(kind: str) -> None:
    for exercise in make_sheet(kind, count=1, seed=5, mistakes=True).exercises:
        planted = exercise.planted_mistake
        assert planted is not None
        claim = nest_claims(exercise.problem, planted.claims)
        first = Problem(**{**exercise.table, "claim": claim}).check().first
        assert first is not None
        assert (first.key, first.cell) == (planted.key, planted.cell)


def test_beams_may_be_answered_in_words() -> None:
    (exercise,) = make_sheet("beam_search", count=1, seed=2).exercises
    problem = exercise.problem
    beams = problem.solve()["beams", 2].astype(int) - 1
    words = [" ".join(np.array(problem.tokens)[row]) for row in beams]
    report = Problem(**{**exercise.table, "claim": {"t": {2: {"beams": words}}}}).check()
    assert report.verdict == "right"


@pytest.mark.parametrize("kind", ["layers", "beam_search", "bleu"])
def test_files_of_the_sheet_are_problems(kind: str, tmp_path: Path) -> None:
    from workings.render.sheets import write_sheet

    write_sheet(make_sheet(kind, count=1, seed=3), tmp_path / "sheet")
    key = Problem.load(tmp_path / "sheet" / "key" / "problem-01.toml")
    assert key.check().verdict == "right"
    assert Problem.load(tmp_path / "sheet" / "problem-01.toml").check().verdict == "blank"
