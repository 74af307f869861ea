"""Where results go: the terminal, or a file that is whole or not there."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from workings.errors import UserError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

    from workings.decode.sample import Sampling
    from workings.recipes import SearchConfig
    from workings.views.picture import Picture

    Search = TypeVar("Search", bound=SearchConfig)

PICTURED = ("text", "html", "svg", "png", "json")
JOINERS = "\u200c\u200d"
PLAIN = ("", "txt")  # endings of files of plain text


def add_layers_and_heads(parser: "ArgumentParser", default: str) -> None:
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


def add_search(parser: "ArgumentParser", what: str) -> None:
    """Let the user say how to search for a translation, a caption; `wanted_search` reads it."""
    parser.add_argument("--beams", type=int, metavar="N", help="default: the recipe's")
    parser.add_argument("--length-penalty", type=float, metavar="A", help="default: the recipe's")
    parser.add_argument("--n-best", type=int, metavar="N", help="the N best, with their scores")
    parser.add_argument(
        "--temperature", type=float, metavar="T", help=f"draw a {what} instead of searching"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="of what is drawn (0)")


class Written(Protocol):
    """What can be written in several formats."""

    def to_text(self, *, width: int | None = None, color: bool = False) -> str: ...
    def to_html(self) -> str: ...
    def to_table(self) -> dict[str, Any]: ...


@runtime_checkable
class Drawn(Written, Protocol):
    """What can be drawn, too."""

    def to_picture(self) -> "Picture": ...


def in_color() -> bool:
    """Say whether the terminal wants colour (NO_COLOR and TERM=dumb do not)."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def width() -> int:
    """How many columns there are to write in."""
    return shutil.get_terminal_size((100, 24)).columns


def on_a_line(text: str) -> str:
    """A text for its own line, harmless, and with what joins letters in Persian or Hindi."""
    from workings.views.plain import one_line

    return "".join(c if c in JOINERS else one_line(c) for c in text)


def wanted_form(form: str | None, out: str | None) -> str:
    """Which format to write: as asked, or the one that the file's name ends in, or text."""
    if form is None:
        ending = Path(out or "").suffix.lower().removeprefix(".")
        if ending not in (*PICTURED, *PLAIN):
            forms = ", ".join(f".{ending}" for ending in PICTURED if ending != "text")
            raise UserError(f"--out {out}: a name ends in {forms} or .txt; or --format says which")
        form = ending if ending in PICTURED else "text"
    if form == "png" and out is None:
        raise UserError("a PNG is nothing for a terminal: --out FILE")
    return form


def show(found: Written, form: str | None, out: str | None) -> None:
    """Write what was found in a format; None: the one that the file's name ends in, or text."""
    form = wanted_form(form, out)
    if form == "json":
        deliver(json.dumps(found.to_table()), out)
    elif form == "html":
        from workings.web.one_file import page

        deliver(page(found), out)
    elif form == "text":
        deliver(found.to_text(width=width(), color=out is None and in_color()), out)
    else:
        assert isinstance(found, Drawn)
        picture = found.to_picture()
        deliver(picture.svg() if form == "svg" else picture.png(), out)


def expect_place(out: str | None) -> None:
    """Refuse a file in a folder that is not there before there is something to lose."""
    if out is not None and not Path(out).parent.is_dir():
        raise UserError(f"--out {out}: there is no folder {Path(out).parent}")


def deliver(given: str | bytes, out: str | None) -> None:
    """Print the text, or write it to a file beside and rename it when it is whole."""
    if isinstance(given, str) and not given.endswith("\n"):
        given += "\n"
    if out is None and isinstance(given, str):
        sys.stdout.write(given)
        return
    assert out is not None
    given = given.encode("utf-8", "replace") if isinstance(given, str) else given
    path = Path(out)
    if not path.name or path.is_dir():
        raise UserError(f"--out {out!r} is a folder: name a file")
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        beside.write_bytes(given)
        beside.replace(path)
    except OSError as error:
        raise UserError(f"--out {out}: {error.strerror}") from None
    finally:
        if beside.exists():
            beside.unlink()


def wanted_search(how: "Search", arguments: "Namespace") -> "tuple[Search, Sampling | None]":
    """Search as the recipe says, unless told otherwise; or draw, given a temperature."""
    from dataclasses import replace

    from workings.decode.sample import Sampling

    options = {"beams": arguments.beams, "length_penalty": arguments.length_penalty}
    given = {name: value for name, value in options.items() if value is not None}
    if given and arguments.temperature is not None:
        option = next(iter(given)).replace("_", "-")
        raise UserError(f"--temperature draws, and --{option} is of a search: which?")
    if arguments.seed is not None and arguments.temperature is None:
        raise UserError("--seed is of what is drawn, which --temperature T asks for")
    how = replace(how, **given)
    if arguments.n_best is not None:
        if arguments.n_best < 1:
            raise UserError(f"--n-best {arguments.n_best}: at least 1")
        if arguments.beams is not None and arguments.beams < arguments.n_best:
            told = f"--n-best {arguments.n_best} of --beams {arguments.beams}"
            raise UserError(f"{told}: there are at most as many as beams")
        for other in ("temperature", "show"):
            if getattr(arguments, other) not in (None, False):
                raise UserError(f"--n-best lists several, --{other} makes one: which?")
        how = replace(how, beams=max(how.beams, arguments.n_best))
    if arguments.temperature is None:
        return how, None
    return how, Sampling(temperature=arguments.temperature, seed=arguments.seed or 0)


def expect_shown(arguments: "Namespace", names: "Sequence[str]", what: str) -> None:
    """Refuse options of what --show draws where it is not asked for: they would be passed over."""
    given = [f"--{name}" for name in names if getattr(arguments, name)]
    if given and not arguments.show:
        raise UserError(f"{given[0]} is of {what}, which --show draws")
