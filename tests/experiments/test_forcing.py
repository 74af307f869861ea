import pytest

from workings.experiments.forcing import (
    EARLY_STEPS,
    LETTERS,
    MISTAKE_POSITION,
    STEPS,
    accuracy_after_mistake,
    measure_spelling,
)


@pytest.mark.slow
def test_teacher_forcing_leaves_exposure_bias():
    teacher, student = (measure_spelling(student, EARLY_STEPS, seed=1) for student in (False, True))
    assert sum(teacher.free_running) < 0.85 * sum(teacher.teacher_forced)
    assert sum(student.free_running) > 0.9 * sum(student.teacher_forced)
    assert teacher.perturbed[MISTAKE_POSITION] == student.perturbed[MISTAKE_POSITION] == 0
    assert accuracy_after_mistake(student.perturbed) > accuracy_after_mistake(teacher.perturbed)


@pytest.mark.slow
def test_only_student_forcing_recovers_from_a_mistake():
    teacher, student = (measure_spelling(student, STEPS, seed=1) for student in (False, True))
    lowest = min(sum(teacher.free_running), sum(student.free_running))
    assert lowest > 0.8 * len(teacher.free_running)
    recovered = accuracy_after_mistake(student.perturbed)
    assert accuracy_after_mistake(teacher.perturbed) < 2.5 / LETTERS < 0.6 < recovered
