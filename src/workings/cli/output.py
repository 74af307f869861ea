"""Where results go: the terminal, or a file that is whole or not there."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from workings.errors import UserError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

    from workings.decode.sampling import Sampling
    from workings.recipes import SearchConfig

    Search = TypeVar("Search", bound=SearchConfig)

FIGURE_FORMATS = ("text", "html", "svg", "png", "json")
ZERO_WIDTH_JOINERS = "\u200c\u200d"
TEXT_SUFFIXES = ("", "txt")  # endings of files of plain text


def add_layer_and_head_options(parser: "ArgumentParser", default: str) -> None:
    """Let the user name layers and heads; say what is shown without."""
    for what in ("layer", "head"):
        parser.add_argument(
            f"--{what}",
            type=int,
            metavar="N",
            action="append",
            default=[],
            help=f"of this {what}, from 1; may be given several times (default: {default})",
        )


def add_search_options(parser: "ArgumentParser", what: str) -> None:
    """Let the user say how to search for a translation, a caption; `wanted_search` reads it."""
    parser.add_argument("--beams", type=int, metavar="N", help="default: the recipe's")
    parser.add_argument("--length-penalty", type=float, metavar="A", help="default: the recipe's")
    parser.add_argument("--n-best", type=int, metavar="N", help="the N best, with their scores")
    parser.add_argument(
        "--temperature", type=float, metavar="T", help=f"draw a {what} instead of searching"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="of what is drawn (0)")


def supports_color() -> bool:
    """Say whether the terminal wants colour (NO_COLOR and TERM=dumb do not)."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def terminal_width() -> int:
    """How many columns there are to write in."""
    return shutil.get_terminal_size((100, 24)).columns


def to_single_line(text: str) -> str:
    """A text for its own line, harmless, and with what joins letters in Persian or Hindi."""
    from workings.plain_text import to_one_line

    return "".join(c if c in ZERO_WIDTH_JOINERS else to_one_line(c) for c in text)


def choose_format(file_format: str | None, out: str | None) -> str:
    """Which format to write: as asked, or the one that the file's name ends in, or text."""
    if file_format is None:
        ending = Path(out or "").suffix.lower().removeprefix(".")
        if ending not in (*FIGURE_FORMATS, *TEXT_SUFFIXES):
            forms = ", ".join(f".{ending}" for ending in FIGURE_FORMATS if ending != "text")
            raise UserError(f"--out {out}: a name ends in {forms} or .txt; or --format says which")
        file_format = ending if ending in FIGURE_FORMATS else "text"
    if file_format == "png" and out is None:
        raise UserError("a PNG is nothing for a terminal: --out FILE")
    return file_format


def write_result(result: Any, file_format: str | None, out: str | None) -> None:
    """Write a result in a format; None: the format that the file's name ends in, else text."""
    from workings import render

    file_format = choose_format(file_format, out)
    if file_format == "json":
        write_output(json.dumps(result.to_dict()), out)
    elif file_format == "html":
        from workings.web.standalone_page import page

        write_output(page(result), out)
    elif file_format == "text":
        write_output(
            render.text(result, width=terminal_width(), color=out is None and supports_color()),
            out,
        )
    else:
        picture = render.picture(result)
        write_output(picture.svg() if file_format == "svg" else picture.png(), out)


def check_parent_folder(out: str | None) -> None:
    """Refuse a file in a folder that is not there before there is something to lose."""
    if out is not None and not Path(out).parent.is_dir():
        raise UserError(f"--out {out}: there is no folder {Path(out).parent}")


def write_output(content: str | bytes, out: str | None) -> None:
    """Print the text, or write it to a file beside and rename it when it is whole."""
    if isinstance(content, str) and not content.endswith("\n"):
        content += "\n"
    if out is None and isinstance(content, str):
        sys.stdout.write(content)
        return
    assert out is not None
    content = content.encode("utf-8", "replace") if isinstance(content, str) else content
    path = Path(out)
    if not path.name or path.is_dir():
        raise UserError(f"--out {out!r} is a folder: name a file")
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        beside.write_bytes(content)
        beside.replace(path)
    except OSError as error:
        raise UserError(f"--out {out}: {error.strerror}") from None
    finally:
        if beside.exists():
            beside.unlink()


def resolve_search(config: "Search", arguments: "Namespace") -> "tuple[Search, Sampling | None]":
    """Search as the recipe says, unless told otherwise; or draw, given a temperature."""
    from dataclasses import replace

    from workings.decode.sampling import Sampling

    options = {"beams": arguments.beams, "length_penalty": arguments.length_penalty}
    given = {name: value for name, value in options.items() if value is not None}
    if given and arguments.temperature is not None:
        option = next(iter(given)).replace("_", "-")
        raise UserError(f"--temperature draws, and --{option} is of a search: which?")
    if arguments.seed is not None and arguments.temperature is None:
        raise UserError("--seed is of what is drawn, which --temperature T asks for")
    config = replace(config, **given)
    if arguments.n_best is not None:
        if arguments.n_best < 1:
            raise UserError(f"--n-best {arguments.n_best}: at least 1")
        if arguments.beams is not None and arguments.beams < arguments.n_best:
            told = f"--n-best {arguments.n_best} of --beams {arguments.beams}"
            raise UserError(f"{told}: there are at most as many as beams")
        for other in ("temperature", "show"):
            if getattr(arguments, other) not in (None, False):
                raise UserError(f"--n-best lists several, --{other} makes one: which?")
        config = replace(config, beams=max(config.beams, arguments.n_best))
    if arguments.temperature is None:
        return config, None
    return config, Sampling(temperature=arguments.temperature, seed=arguments.seed or 0)


def check_show_options(arguments: "Namespace", names: "Sequence[str]", subject: str) -> None:
    """Refuse options of what --show draws where it is not asked for: they would be passed over."""
    given = [f"--{name}" for name in names if getattr(arguments, name)]
    if given and not arguments.show:
        raise UserError(f"{given[0]} is of {subject}, which --show draws")
