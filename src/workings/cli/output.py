"""Shared by the verbs: common options, output to the terminal or to a file."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from workings.errors import UserError
from workings.io import existing_path, write_bytes

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

    from workings.decode import Sampling
    from workings.recipes import SearchConfig

    Search = TypeVar("Search", bound=SearchConfig)

FIGURE_FORMATS = ("text", "html", "svg", "png", "json")
ZERO_WIDTH_JOINERS = "\u200c\u200d"
TEXT_SUFFIXES = ("", "txt")


def add_layer_and_head_options(parser: "ArgumentParser", default: str) -> None:
    """Add --layer and --head; `default`: what is shown without them."""
    for name in ("layer", "head"):
        parser.add_argument(
            f"--{name}",
            type=int,
            metavar="N",
            action="append",
            default=[],
            help=f"{name}, from 1; may be given several times (default: {default})",
        )


def add_search_options(parser: "ArgumentParser") -> None:
    """Add the options of beam search and sampling; `resolve_search` reads them."""
    recipe = "default: the recipe's"
    parser.add_argument("--beams", type=int, metavar="N", help=f"beam size ({recipe})")
    parser.add_argument(
        "--length-penalty", type=float, metavar="A", help=f"of beam search ({recipe})"
    )
    parser.add_argument("--n-best", type=int, metavar="N", help="print the N best with scores")
    parser.add_argument(
        "--temperature", type=float, metavar="T", help="sample instead of beam search"
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", help="random seed of sampling (default: 0)"
    )


def supports_color() -> bool:
    """Return True if standard output is a terminal with color (no NO_COLOR, no TERM=dumb)."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def terminal_width() -> int:
    """Return the number of columns of the terminal."""
    return shutil.get_terminal_size((100, 24)).columns


def read_text_argument(text: str) -> str:
    """Return the text of an argument; `-` reads standard input."""
    if text != "-":
        check_not_folder(text, "a text")
        return text
    return sys.stdin.buffer.read().decode("utf-8", "replace").rstrip("\r\n")


def check_not_folder(text: str, expected: str) -> None:
    """Raise UserError if a text is the name of a folder; "." and "/" are texts."""
    path = existing_path(text)
    if path is not None and path.is_dir() and any(map(str.isalnum, text)):
        raise UserError(
            f"{text} is a folder: give {expected}, or - to read the text from standard input"
        )


def to_single_line(text: str) -> str:
    """Return a text as one line without control characters; joiners of letters are kept."""
    from workings.plain_text import to_one_line

    return "".join(c if c in ZERO_WIDTH_JOINERS else to_one_line(c) for c in text)


def choose_format(file_format: str | None, out: str | None) -> str:
    """Return the output format: as given, or by the suffix of the file, or text."""
    if file_format is None:
        suffix = Path(out or "").suffix.lower().removeprefix(".")
        if suffix not in (*FIGURE_FORMATS, *TEXT_SUFFIXES):
            suffixes = ", ".join(f".{name}" for name in FIGURE_FORMATS if name != "text")
            raise UserError(
                f"--out {out}: unknown suffix: expected {suffixes} or .txt, or give --format"
            )
        file_format = suffix if suffix in FIGURE_FORMATS else "text"
    if file_format == "png" and out is None:
        raise UserError("--format png needs --out FILE")
    return file_format


def write_result(result: Any, file_format: str | None, out: str | None) -> None:
    """Write a result in a format; None: by the suffix of the file, or text."""
    from workings.render import picture, text

    file_format = choose_format(file_format, out)
    if file_format == "json":
        write_output(json.dumps(result.to_dict()), out)
    elif file_format == "html":
        from workings.web.standalone_page import page

        write_output(page(result), out)
    elif file_format == "text":
        write_output(
            text(result, width=terminal_width(), color=out is None and supports_color()),
            out,
        )
    else:
        drawn = picture(result)
        write_output(drawn.svg() if file_format == "svg" else drawn.png(), out)


def check_parent_folder(out: str | None) -> None:
    """Raise an error if the folder of --out is missing, before a long computation."""
    if out is not None and not Path(out).parent.is_dir():
        raise UserError(f"--out {out}: no such folder: {Path(out).parent}")


def write_output(content: str | bytes, out: str | None) -> None:
    """Print a text, or write it to a file atomically."""
    if isinstance(content, str) and not content.endswith("\n"):
        content += "\n"
    if out is None and isinstance(content, str):
        sys.stdout.write(content)
        return
    assert out is not None
    content = content.encode("utf-8", "replace") if isinstance(content, str) else content
    path = Path(out)
    if not path.name or path.is_dir():
        raise UserError(f"--out {out!r} is a folder: expected a file")
    try:
        write_bytes(path, content, unique=True)
    except OSError as error:
        raise UserError(f"--out {out}: {error.strerror}") from None


def resolve_search(config: "Search", arguments: "Namespace") -> "tuple[Search, Sampling | None]":
    """Return the recipe's search with the given options, and sampling if --temperature is given."""
    from dataclasses import replace

    from workings.decode import Sampling

    options = {"beams": arguments.beams, "length_penalty": arguments.length_penalty}
    changes = {name: value for name, value in options.items() if value is not None}
    if changes and arguments.temperature is not None:
        option = next(iter(changes)).replace("_", "-")
        raise UserError(f"--temperature (sampling) and --{option} (search) exclude each other")
    if arguments.seed is not None and arguments.temperature is None:
        raise UserError("--seed needs --temperature: beam search is deterministic")
    config = replace(config, **changes)
    if arguments.n_best is not None:
        if arguments.n_best < 1:
            raise UserError(f"--n-best {arguments.n_best}: must be at least 1")
        if arguments.beams is not None and arguments.beams < arguments.n_best:
            raise UserError(
                f"--n-best {arguments.n_best} must be at most --beams {arguments.beams}"
            )
        for other in ("temperature", "show"):
            if getattr(arguments, other) not in (None, False):
                raise UserError(
                    f"--n-best (several outputs) and --{other} (one) exclude each other"
                )
        config = replace(config, beams=max(config.beams, arguments.n_best))
    if arguments.temperature is None:
        return config, None
    return config, Sampling(temperature=arguments.temperature, seed=arguments.seed or 0)


def check_show_options(arguments: "Namespace", names: "Sequence[str]") -> None:
    """Raise an error for options of --show without it: they would have no effect."""
    options = [f"--{name}" for name in names if getattr(arguments, name)]
    if options and not arguments.show:
        raise UserError(f"{options[0]} needs --show")
