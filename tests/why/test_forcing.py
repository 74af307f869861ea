import pytest

from workings.why.forcing import EARLY, LETTERS, MISTAKE, after, measure, spelled


def test_a_teacher_leaves_exposure_bias():
    teacher, student = (spelled(student, EARLY, seed=1) for student in (False, True))
    assert sum(teacher.alone) < 0.85 * sum(teacher.told)
    assert sum(student.alone) > 0.9 * sum(student.told)
    assert teacher.misled[MISTAKE] == student.misled[MISTAKE] == 0
    assert after(student.misled) > after(teacher.misled)


@pytest.mark.slow
def test_only_a_student_recovers_from_a_mistake():
    teacher, student = (forced.late for forced in measure())
    assert min(sum(teacher.alone), sum(student.alone)) > 0.8 * len(teacher.alone)
    assert after(teacher.misled) < 2.5 / LETTERS < 0.6 < after(student.misled)
