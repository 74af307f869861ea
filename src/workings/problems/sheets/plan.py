"""Make the plan of a sheet: choose every size, and reject those that do not work."""

import re
from collections.abc import Mapping
from typing import Any

from workings.errors import UserError, did_you_mean
from workings.problems.kind_names import find_kind
from workings.problems.sheets.sheet_kind import SheetKind, SheetPlan, Size
from workings.problems.sheets.sheet_kinds import SHEET_KINDS
from workings.problems.spellings import find_name

MAX_PROBLEMS = 200  # per sheet
LEVELS = (1, 2, 3)
_SIZE = re.compile(r"(\d{1,4})\s*[x×*]\s*(\d{1,4})", re.IGNORECASE)


def make_plans(kinds: str, size: str | Size | None = None, **options: Any) -> list[SheetPlan]:
    """Return the plan of each kind of a list like `self,lstm`.

    An option goes to the kinds that have it.

    >>> [plan.heads for plan in make_plans("self,lstm", heads=2)]
    [2, 1]
    """
    names = list(dict.fromkeys(name.strip() for name in kinds.split(",")))
    sheet_kinds = [get_sheet_kind(name) for name in names]
    given = [name for name, value in options.items() if value is not None]
    plans = []
    for kind in sheet_kinds:
        others = [
            name
            for name in given
            if _is_size_option(name)
            and not _accepts(kind, name)
            and any(_accepts(other, name) for other in sheet_kinds)
        ]
        own = {name: value for name, value in options.items() if name not in others}
        plans.append(make_plan(kind.name, size, **own))
    return plans


def make_plan(
    kind: str,
    size: str | Size | None = None,
    *,
    level: int = 2,
    decimals: int = 3,
    vectors: str = "rows",
    scale: str = "sqrt(d_k)",
    **sizes: int | None,
) -> SheetPlan:
    """Return the plan of a sheet with every size chosen; reject sizes that do not work.

    Without a size, the kind has one for each level. `sizes` are options of the kind, such as heads.

    >>> make_plan("masked", "3x5").d_k
    4
    >>> make_plan("masked", "3x4").d_k  # with 4, √d_k and √d_model would be equal
    3
    """
    sheet_kind = get_sheet_kind(kind)
    if level not in LEVELS:
        raise UserError(f"--level {level}: it must be from 1 to {LEVELS[-1]}")
    if vectors not in ("rows", "columns"):
        raise UserError(f"--vectors {vectors!r:.40}: expected one of rows, columns")
    if not 1 <= decimals <= 6:
        raise UserError(f"--decimals {decimals}: it must be from 1 to 6")
    tokens, width = _parse_size(sheet_kind, sheet_kind.sizes[level - 1] if size is None else size)
    given_sizes = {name: value for name, value in sizes.items() if value is not None}
    _check_options(sheet_kind, {**given_sizes, **_get_given_scale(scale)})
    plan = SheetPlan(
        kind=sheet_kind,
        tokens=tokens,
        width=width,
        decimals=decimals,
        column_vectors=vectors == "columns",
        is_scaled=scale != "none",
        sizes=_choose_sizes(sheet_kind, given_sizes, tokens, width),
    )
    return sheet_kind.complete_plan(plan, given_sizes)


def get_sheet_kind(name: str) -> SheetKind:
    """Return a kind of sheet by its name."""
    usual = find_name(name, SHEET_KINDS, {}) or _find_by_problem_kind(name)
    if usual is None:
        raise UserError(f"--kind {name!r:.40}: {did_you_mean(name, SHEET_KINDS)}")
    return SHEET_KINDS[usual]


def _find_by_problem_kind(name: str) -> str | None:
    """Return the kind of sheet by another name of its kind of problem: WER, Adam, bilstm."""
    kind, settings = find_kind(name) or (None, {})
    if kind is None:
        return None
    if kind.name == "optimizer_step":
        return find_name(f"{settings.get('optimizer')}_step", SHEET_KINDS, {})
    if kind.name == "attention":
        return "masked" if settings else "self"
    return kind.name if kind.name in SHEET_KINDS else None


def _parse_size(kind: SheetKind, size: str | Size) -> Size:
    """Return both sizes, checked for this kind."""
    if isinstance(size, str):
        match = _SIZE.fullmatch(size.strip())
        if not match:
            expected = "x".join(name.upper().replace(" ", "_") for name in kind.size_names)
            example = "x".join(str(number) for number in kind.sizes[1])
            raise UserError(f"--size {size!r:.40}: expected {expected}, like {example}")
        size = (int(match[1]), int(match[2]))
    text = f"--size {size[0]}x{size[1]}"
    for name, value, low, high in zip(
        kind.size_names, size, kind.min_size, kind.max_size, strict=True
    ):
        if not low <= value <= high:
            allowed = f"from {low} to {high}" if low < high else f"{low}"
            raise UserError(f"{text}: {name} must be {allowed}")
    reason = kind.check_size(*size)
    if reason:
        raise UserError(f"{text}: {reason}")
    return size


def _get_given_scale(scale: str) -> dict[str, str]:
    """Return the scale if it is not the default."""
    if scale not in ("sqrt(d_k)", "none"):
        raise UserError(f"--scale {scale!r:.40}: expected one of sqrt(d_k), none")
    return {} if scale == "sqrt(d_k)" else {"scale": scale}


def _check_options(kind: SheetKind, given: Mapping[str, Any]) -> None:
    """Reject an option that this kind of sheet does not have."""
    for name in given:
        if not _accepts(kind, name):
            kinds = [other.name for other in SHEET_KINDS.values() if _accepts(other, name)]
            if not kinds:
                raise TypeError(f"make_plan() got an unexpected keyword argument {name!r}")
            flag = format_flag(name)
            raise UserError(f"{flag} is for --kind {', '.join(kinds)}, not for {kind.name}")


def _is_size_option(name: str) -> bool:
    return any(_accepts(kind, name) for kind in SHEET_KINDS.values())


def _accepts(kind: SheetKind, name: str) -> bool:
    """Return True if a kind has an option; only those with queries and keys have a scale."""
    return name in kind.options or (name == "scale" and kind.has_attention)


def _choose_sizes(
    kind: SheetKind, given: Mapping[str, int], tokens: int, width: int
) -> dict[str, int]:
    sizes = {}
    for name, option in kind.options.items():
        size = given.get(name, option.default(tokens, width))
        if not option.minimum <= size <= option.maximum:
            raise UserError(
                f"{format_flag(name)} {size}: it must be from {option.minimum} to {option.maximum}"
            )
        sizes[name] = size
    return sizes


def format_flag(name: str) -> str:
    """Return the option of the command line: `--hidden-size`."""
    return "--" + name.replace("_", "-")
