"""Grade students' answers to a sheet: read what they hand in, mark it, report it."""

from workings.problems.grading.grade import grade
from workings.problems.grading.grader_cell import score_claim
from workings.problems.grading.marks import Grades, StudentMarks

__all__ = ["Grades", "StudentMarks", "grade", "score_claim"]
