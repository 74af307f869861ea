"""What a user got wrong, said in a line or two, with what would be right."""

from collections.abc import Iterable


class UserError(ValueError):
    """A mistake of the user's: the command line prints its message and exits with 2."""


class ErrorOnOtherRank(UserError):  # noqa: N818
    """Something went wrong, and another of the processes that work together says what."""


_EXTRAS = {
    "torch": "models",
    "jaxtyping": "models",
    "safetensors": "models",
    "emoji": "data",
    "tokenizers": "data",
    "PIL": "pictures",
    "sklearn": "baselines",
    "ctranslate2": "fast",
    "sacrebleu": "translate",
    "sacremoses": "translate",
    "fastapi": "web",
    "pydantic": "web",
    "starlette": "web",
    "uvicorn": "web",
    "anywidget": "notebook",
}


def install_hint(error: ModuleNotFoundError) -> str | None:
    """Say how to install a package that an extra brings; None for any other.

    >>> install_hint(ModuleNotFoundError(name="torch"))
    'pip install "workings[models]"'
    """
    extra = _EXTRAS.get((error.name or "").partition(".")[0])
    return None if extra is None else f'pip install "workings[{extra}]"'


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """End an error about a wrong name: the nearest right one, or all of them.

    >>> did_you_mean("wieghts", ["scores", "weights"])
    "did you mean 'weights'?"
    >>> did_you_mean("zebra", ["scores", "weights"])
    'expected one of scores, weights'
    """
    known = list(choices)
    close = closest_match(word, known)
    some = [*known[:30], "…"] if len(known) > 30 else known
    return f"did you mean {close!r}?" if close else f"expected one of {', '.join(some)}"


def closest_match(word: str, choices: Iterable[str]) -> str | None:
    """Guess which of the choices was meant by a word, if any.

    >>> closest_match("Scores", ["scores", "weights"])
    'scores'
    """
    from difflib import get_close_matches  # costs 5 ms, and only errors need it

    known = list(choices)
    same = [choice for choice in known if choice.casefold() == word.casefold()]
    return next(iter(same or get_close_matches(word[:60], known, n=1)), None)


def truncate(text: str, max_chars: int = 60) -> str:
    r"""Write somebody's text into an error: its beginning, on one line.

    >>> truncate("one\ntwo"), truncate("abcdef", 3)
    ('one\\ntwo', 'abc…')
    """
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:max_chars])
    return line if len(text) <= max_chars else f"{line}…"


def safe_repr(value: object, max_chars: int = 60) -> str:
    """Write somebody's value into an error, however large it is.

    >>> safe_repr([1, "a"]), safe_repr(1 << 99_999)
    ("[1, 'a']", 'a value too large to show')
    """
    try:
        return truncate(repr(value), max_chars)
    except (ValueError, RecursionError):  # Python writes no whole number of a mile's length
        return "a value too large to show"


def expect_width(actual: int, expected: int, name: str = "vectors") -> None:
    """Stop vectors that are not as wide as a layer was made for.

    >>> expect_width(3, 4, "queries")
    Traceback (most recent call last):
    workings.errors.UserError: expected queries of width 4, got 3
    """
    if actual != expected:
        raise UserError(f"expected {name} of width {expected}, got {actual}")
