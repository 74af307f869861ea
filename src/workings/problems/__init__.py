"""Worked problems: read, solve, check. numpy only."""

from workings.problems.check import Report
from workings.problems.problem import Problem
from workings.problems.solution import Solution

__all__ = ["Problem", "Report", "Solution"]
