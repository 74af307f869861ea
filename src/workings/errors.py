"""Errors for mistakes of the user, and helpers to word them in a line or two."""

from collections.abc import Iterable

MAX_CHOICES = 24  # names that an error message lists
REPOSITORY = "https://github.com/workings/workings"
# Where pip finds the package. Empty once a version is on the package index.
_INSTALL_SOURCE = f" @ git+{REPOSITORY}"


class UserError(ValueError):
    """A mistake of the user: the command line prints the message and exits with status 2."""


class ErrorOnOtherRank(UserError):  # noqa: N818
    """An error that another rank of a distributed run reports: this process only stops."""


# Which extra of the package installs which third-party module.
_EXTRAS = {
    "torch": "models",
    "jaxtyping": "models",
    "safetensors": "models",
    "emoji": "data",
    "tokenizers": "data",
    "PIL": "pictures",
    "fontTools": "pictures",
    "fpdf": "pictures",
    "sklearn": "baselines",
    "pyarrow": "tables",
    "datasets": "datasets",
    "ctranslate2": "fast",
    "sacrebleu": "translate",
    "sacremoses": "translate",
    "fastapi": "web",
    "pydantic": "web",
    "starlette": "web",
    "uvicorn": "web",
    "anywidget": "notebook",
    "tensorboard": "tensorboard",
    "wandb": "wandb",
    "mlflow": "mlflow",
    "shtab": "completion",
    "pypdf": "documents",
    "onnx": "onnx",
    "onnxscript": "onnx",
}


def install_command(extra: str = "") -> str:
    """Return the command that installs the package, with one of its extras.

    >>> install_command("models").startswith('pip install "workings[models]')
    True
    """
    return f'pip install "workings{extra and f"[{extra}]"}{_INSTALL_SOURCE}"'


def install_hint(error: ModuleNotFoundError) -> str | None:
    """Return the command that installs a missing module, or None if no extra has it.

    >>> install_hint(ModuleNotFoundError(name="torch")) == install_command("models")
    True
    """
    extra = _EXTRAS.get((error.name or "").partition(".")[0])
    return None if extra is None else install_command(extra)


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return the end of an error about an unknown name: the closest choice, or a list of all.

    >>> did_you_mean("wieghts", ["scores", "weights"])
    "did you mean 'weights'?"
    >>> did_you_mean("zebra", ["scores", "weights"])
    'expected one of scores, weights'
    """
    names = list(choices)
    if close := closest_match(word, names):
        return f"did you mean {close!r}?"
    listed = [*names[:MAX_CHOICES], "…"] if len(names) > MAX_CHOICES else names
    return f"expected one of {', '.join(listed)}"


def closest_match(word: str, choices: Iterable[str]) -> str | None:
    """Return the choice that a misspelled word most likely stands for, or None.

    >>> closest_match("Scores", ["scores", "weights"])
    'scores'
    """
    from difflib import get_close_matches  # costs 5 ms, and only errors need it

    names = list(choices)
    same = [name for name in names if name.casefold() == word.casefold()]
    return next(iter(same or get_close_matches(word[:60], names, n=1)), None)


def truncate(text: str, max_chars: int = 60) -> str:
    r"""Return the beginning of a text on one line, safe to print in an error.

    >>> truncate("one\ntwo"), truncate("abcdef", 3)
    ('one\\ntwo', 'abc…')
    """
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:max_chars])
    return line if len(text) <= max_chars else f"{line}…"


def safe_repr(value: object, max_chars: int = 60) -> str:
    """Return a short repr of any value, even of one whose repr Python refuses to write.

    >>> safe_repr([1, "a"]), safe_repr(1 << 99_999)
    ("[1, 'a']", 'a value too large to show')
    """
    try:
        return truncate(repr(value), max_chars)
    except (ValueError, RecursionError):  # Python refuses to write an int of thousands of digits
        return "a value too large to show"
