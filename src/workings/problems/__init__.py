"""Worked problems: read, solve and check them; numpy only, no torch."""

from workings.problems.check import Report
from workings.problems.problem import Problem
from workings.problems.solution import Solution

__all__ = ["Problem", "Report", "Solution"]
