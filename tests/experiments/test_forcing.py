import pytest

from workings.experiments.forcing import (
    EARLY_STEPS,
    LETTERS,
    MISTAKE_POSITION,
    accuracy_after_mistake,
    measure,
    measure_spelling,
)


def test_a_teacher_leaves_exposure_bias():
    teacher, student = (measure_spelling(student, EARLY_STEPS, seed=1) for student in (False, True))
    assert sum(teacher.free_running) < 0.85 * sum(teacher.teacher_forced)
    assert sum(student.free_running) > 0.9 * sum(student.teacher_forced)
    assert teacher.perturbed[MISTAKE_POSITION] == student.perturbed[MISTAKE_POSITION] == 0
    assert accuracy_after_mistake(student.perturbed) > accuracy_after_mistake(teacher.perturbed)


@pytest.mark.slow
def test_only_a_student_recovers_from_a_mistake():
    teacher, student = (forced.late for forced in measure())
    assert min(sum(teacher.free_running), sum(student.free_running)) > 0.8 * len(
        teacher.free_running
    )
    assert (
        accuracy_after_mistake(teacher.perturbed)
        < 2.5 / LETTERS
        < 0.6
        < accuracy_after_mistake(student.perturbed)
    )
