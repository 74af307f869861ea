"""What a user got wrong, said in a line or two, with what would be right."""

from collections.abc import Iterable


class UserError(ValueError):
    """A mistake of the user's: the command line prints its message and exits with 2."""


class ToldElsewhere(UserError):  # noqa: N818
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


def extra_of(missing: ModuleNotFoundError) -> str | None:
    """Say how to install a package that an extra brings; None for any other.

    >>> extra_of(ModuleNotFoundError(name="torch"))
    'pip install "workings[models]"'
    """
    extra = _EXTRAS.get((missing.name or "").partition(".")[0])
    return None if extra is None else f'pip install "workings[{extra}]"'


def near(word: str, choices: Iterable[str]) -> str:
    """End an error about a wrong name: the nearest right one, or all of them.

    >>> near("wieghts", ["scores", "weights"])
    "did you mean 'weights'?"
    >>> near("zebra", ["scores", "weights"])
    'expected one of scores, weights'
    """
    known = list(choices)
    close = nearest(word, known)
    some = [*known[:30], "…"] if len(known) > 30 else known
    return f"did you mean {close!r}?" if close else f"expected one of {', '.join(some)}"


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """Guess which of the choices was meant by a word, if any.

    >>> nearest("Scores", ["scores", "weights"]), nearest("zebra", ["scores", "weights"])
    ('scores', None)
    """
    from difflib import get_close_matches  # costs 5 ms, and only errors need it

    known = list(choices)
    same = [choice for choice in known if choice.casefold() == word.casefold()]
    return next(iter(same or get_close_matches(word[:60], known, n=1)), None)


def brief(text: str, most: int = 60) -> str:
    r"""Write somebody's text into an error: its beginning, on one line.

    >>> brief("one\ntwo"), brief("abcdef", 3)
    ('one\\ntwo', 'abc…')
    """
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:most])
    return line if len(text) <= most else f"{line}…"


def shown(value: object, most: int = 60) -> str:
    """Write somebody's value into an error, however large it is.

    >>> shown([1, "a"]), shown(1 << 99_999)
    ("[1, 'a']", 'a value too large to show')
    """
    try:
        return brief(repr(value), most)
    except (ValueError, RecursionError):  # Python writes no whole number of a mile's length
        return "a value too large to show"


def expect_width(given: int, expected: int, what: str = "vectors") -> None:
    """Stop vectors that are not as wide as a layer was made for.

    >>> expect_width(3, 4, "queries")
    Traceback (most recent call last):
    workings.errors.UserError: expected queries of width 4, got 3
    """
    if given != expected:
        raise UserError(f"expected {what} of width {expected}, got {given}")
