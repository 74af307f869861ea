"""What a sheet asks for: which steps of a problem, for how many points each."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from workings.errors import UserError, did_you_mean
from workings.problems.problem import Problem

MAX_POINTS = 100  # per step
_POINTS = re.compile(r"(?:([^=\s]+)\s*=\s*)?(\d{1,4})")


@dataclass(frozen=True)
class Questions:
    """The steps that are asked (all, if empty) and their points, by name or key of the step.

    A name (`scores`) is that step in every head or at every time, a key (`scores.2`) one of them.
    """

    steps: tuple[str, ...] = ()
    points: Mapping[str, int] = field(default_factory=dict)
    default_points: int = 1

    @property
    def has_points(self) -> bool:
        """True if points are chosen, so that a sheet prints them."""
        return bool(self.points) or self.default_points != 1

    def select_steps(self, problem: Problem) -> tuple[str, ...]:
        """Return the keys of the steps of a problem that are asked, in order."""
        steps = problem.asked_steps
        return tuple(
            step.key
            for step in steps
            if not self.steps or step.key in self.steps or step.name in self.steps
        )

    def get_points(self, key: str) -> int:
        """Return the points of a step."""
        return self.points.get(key, self.points.get(_get_name(key), self.default_points))


def parse_questions(steps: str | Sequence[str] | None, points: str | None) -> Questions:
    """Read --steps (`weights,mixed`) and --points (`weights=2,mixed=3` or one number for all).

    >>> parse_questions("weights,mixed", "mixed=3").get_points("mixed.2")
    3
    """
    parts = steps.split(",") if isinstance(steps, str) else steps or ()
    names = tuple(part.strip() for part in parts)
    if steps is not None and not all(names):
        raise UserError("--steps: expected names of steps, like weights,mixed")
    default, by_step = 1, dict[str, int]()
    for part in points.split(",") if points is not None else ():
        match = _POINTS.fullmatch(part.strip())
        if not match:
            raise UserError(f"--points {part.strip()!r:.40}: expected STEP=POINTS, like mixed=2")
        value = int(match[2])
        if not 1 <= value <= MAX_POINTS:
            raise UserError(f"--points {part.strip()}: it must be from 1 to {MAX_POINTS}")
        if match[1] is None:
            default = value
        else:
            by_step[match[1]] = value
    return Questions(names, by_step, default)


def check_questions(questions: Questions, problems: Sequence[Problem]) -> None:
    """Reject names that are no step of these problems, and a problem that is asked nothing."""
    known = [step for problem in problems for step in problem.asked_steps]
    names = list(dict.fromkeys(name for step in known for name in (step.name, step.key)))
    for flag, given in (("--steps", questions.steps), ("--points", questions.points)):
        for name in given:
            if name not in names:
                raise UserError(f"{flag} {name!r:.40}: no such step: {did_you_mean(name, names)}")
    asked_names = {key for problem in problems for key in questions.select_steps(problem)}
    asked_names |= {_get_name(key) for key in asked_names}
    for name in questions.points:
        if name not in asked_names:
            raise UserError(f"--points {name}: --steps does not ask for it")
    for problem in problems:
        if not questions.select_steps(problem):
            steps = ", ".join(dict.fromkeys(step.name for step in problem.asked_steps))
            raise UserError(
                f"--steps: none is a step of {problem.kind.name} problems, which have {steps}"
            )


def _get_name(key: str) -> str:
    """Return the name of a step without its head or time: `scores` for `scores.2`."""
    name, _, part = key.rpartition(".")
    return name if part.isdigit() else key
