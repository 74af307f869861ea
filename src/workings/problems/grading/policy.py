"""The policy of a sheet: what its steps are worth, in a small TOML file beside the sheet.

[points]                 # by step; the scores of every head are "scores", of head 2 "scores.2"
scores = 2

[marking]
follows = 1.0            # share for numbers that follow from an earlier mistake
fewer_decimals = 1       # so many decimals fewer than the sheet asks for are accepted
missing_penalty = 0.0    # points deducted for a step that is left out, beside its own
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workings.errors import UserError, did_you_mean, safe_repr
from workings.io import parse_toml
from workings.problems.problem_file import prefix_errors, read_text_file

POLICY_FILE = "policy.toml"
_MAX_POINTS = 1000
_LIMITS = {"follows": (0.0, 1.0), "fewer_decimals": (0, 5), "missing_penalty": (0.0, _MAX_POINTS)}


@dataclass(frozen=True)
class Policy:
    """How an answer is marked."""

    points: Mapping[str, float] = field(default_factory=dict)  # by key or name of a step
    follows: float = 1.0
    fewer_decimals: int = 1
    missing_penalty: float = 0.0

    def get_points(self, key: str, default: float = 1.0) -> float:
        """Return what a step is worth: its own entry, that of its name, or the default."""
        name, _, part = key.rpartition(".")
        default = self.points.get(name, default) if part.isdecimal() else default
        return float(self.points.get(key, default))

    def check_steps(self, keys: Iterable[str]) -> None:
        """Raise an error if the policy names a step that the sheet does not have."""
        known = {name for key in keys for name in (key, _remove_part(key))}
        for name in self.points:
            if name not in known:
                hint = did_you_mean(name, sorted(known))
                raise UserError(f"points.{name[:40]}: the sheet has no such step: {hint}")


def _remove_part(key: str) -> str:
    name, _, part = key.rpartition(".")
    return name if part.isdecimal() else key


def read_policy(path: Path) -> Policy:
    """Read a policy; a file that does not exist is the default policy."""
    if not path.exists():
        return Policy()
    with prefix_errors(path):
        try:
            table = parse_toml(read_text_file(path))
        except ValueError as error:
            raise UserError(f"not TOML: {error!s:.150}") from None
        return parse_policy(table)


def parse_policy(table: Mapping[str, Any]) -> Policy:
    """Check the values of a policy."""
    for name, value in table.items():
        if name not in ("points", "marking") or not isinstance(value, Mapping):
            raise UserError(f"{name[:40]}: expected the tables [points] and [marking]")
    points = {k: _check_number(f"points.{k}", v, 0, _MAX_POINTS) for k, v in _flatten(table)}
    marking = table.get("marking", {})
    for key in marking:
        if key not in _LIMITS:
            raise UserError(f"marking.{key[:40]}: {did_you_mean(key, _LIMITS)}")
    numbers = {k: _check_number(f"marking.{k}", v, *_LIMITS[k]) for k, v in marking.items()}
    return Policy(
        points,
        numbers.get("follows", 1.0),
        int(numbers.get("fewer_decimals", 1)),
        numbers.get("missing_penalty", 0.0),
    )


def _flatten(table: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """Yield the points by step; a dotted TOML key such as scores.2 is a table of tables."""
    for name, value in table.get("points", {}).items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{k}", v) for k, v in _flatten({"points": value}))
        else:
            yield name, value


def _check_number(where: str, value: Any, low: float, high: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not low <= value <= high:
        raise UserError(
            f"{where[:60]} = {safe_repr(value, 30)}: expected a number from {low:g} to {high:g}"
        )
    return float(value)
