"""The command line: its main function, and what the commands share.

Each command is a module without logic. `--help` imports neither torch nor numpy.
"""

import argparse
import io
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from workings import __version__
from workings.errors import ErrorOnOtherRank, UserError, did_you_mean, install_hint, truncate
from workings.io import existing_path, write_bytes
from workings.languages import use_language
from workings.signals import handle_signals

if TYPE_CHECKING:
    from workings.decode import Sampling
    from workings.recipes import SearchConfig
    from workings.render.picture_style import PictureStyle
    from workings.render.pictures import Picture

    Search = TypeVar("Search", bound=SearchConfig)

# Each is a module of this package with HELP, add_arguments(parser) and run(arguments) -> status.
VERBS = (
    "solve",
    "check",
    "make",
    "grade",
    "serve",
    "site",
    "recipes",
    "train",
    "resume",
    "log",
    "verify",
    "evaluate",
    "predict",
    "explain",
    "complete",
    "translate",
    "score",
    "caption",
    "cells",
    "attention",
    "head",
    "work",
    "gates",
    "gradients",
    "export",
    "import",
    "tokens",
    "summary",
    "compare",
    "diff",
    "why",
    "completion",
)

DESCRIPTION = """\
Sequence models, from RNN to Transformer, that show their workings.
"""

RECIPE_HELP = "file (TOML) or name of a built-in recipe (`workings recipes` lists them)"
PICTURE_FORMATS = ("svg", "pdf", "png")
FIGURE_FORMATS = ("text", "html", *PICTURE_FORMATS, "json")
TEXT_SUFFIXES = ("", "txt")
ZERO_WIDTH_JOINERS = "\u200c\u200d"
TERMINATION_TIMEOUT = 10.0  # seconds; torchrun ends the other processes when one fails
# MKL and OpenBLAS read OpenMP's variable as well, unless their own is set.
THREAD_COUNT_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
SPIN_COUNT = "1000"  # for GNU's OpenMP, which torch uses on Linux; others sleep at once
CGROUP_QUOTA_FILE = Path("/sys/fs/cgroup/cpu.max")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status: 2 for a user error."""
    for stream in (sys.stdout, sys.stderr):  # the code page of the terminal may lack our symbols
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    argv = sys.argv[1:] if argv is None else argv
    try:
        with report_on_local_rank_zero():
            _check_verb(argv)
            if "--help" in argv or "-h" in argv:  # argparse prints it before it is done
                _import_plugins(_find_plugin_options(argv))
    except UserError as error:
        return _report_error(error)
    parser = _build_parser(argv[:1] if argv and argv[0] in VERBS else VERBS)
    arguments, changes = parser.parse_known_args(argv)
    if changes and not arguments.takes_changes:
        parser.error(f"unrecognized arguments: {' '.join(changes)}")
    arguments.changes, arguments.status = changes, 0
    try:
        set_num_threads(arguments.threads)
        _import_plugins(arguments.plugin)
        with use_language(getattr(arguments, "language", None) or "en"), _ignore_sigusr1(argv[0]):
            status: int = arguments.run(arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader (head, less) has closed the pipe; the status stays
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(arguments.status)
    except ModuleNotFoundError as missing:
        if arguments.debug or install_hint(missing) is None:
            raise
        sys.stderr.write(f"workings: {missing.name} is missing: {install_hint(missing)}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    except (UserError, OSError) as error:
        if arguments.debug:
            raise
        return _report_error(error)


def _ignore_sigusr1(verb: str) -> AbstractContextManager[None]:
    """Ignore the signal to save before a training's first step and after its last one.

    By default it would end the process; schedulers send it at any time.
    """
    is_training = verb in ("train", "resume") and hasattr(signal, "SIGUSR1")
    return handle_signals({signal.SIGUSR1: signal.SIG_IGN} if is_training else {})


def _check_verb(argv: Sequence[str]) -> None:
    """Raise a one-line error for an unknown command; argparse would list all commands."""
    if argv and not argv[0].startswith("-") and argv[0] not in VERBS:
        raise UserError(f"{truncate(argv[0])}: no such command: {did_you_mean(argv[0], VERBS)}")


def _import_plugins(names: Sequence[str]) -> None:
    if names:
        from workings.registry import import_plugins

        import_plugins(names)


def _find_plugin_options(argv: Sequence[str]) -> list[str]:
    parser = argparse.ArgumentParser(add_help=False)
    _add_plugin_option(parser)
    plugins: list[str] = parser.parse_known_args(argv)[0].plugin
    return plugins


def _add_plugin_option(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--plugin",
        metavar="MODULE",
        action="append",
        default=[],
        help="import a module that adds models, tasks, tokenizers or metrics; may be given several "
        "times",
    )


def _report_error(error: UserError | OSError) -> int:
    """Print an error, unless another process prints it; return the exit status."""
    from workings.plain_text import escape_control

    if isinstance(error, ErrorOnOtherRank):
        _wait_for_termination()
    message = f"workings: {escape_control(_format_error(error))}"
    sys.stderr.write(f"{message}\n")
    _write_torchelastic_error(message)
    return 2


def _format_error(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


class _Parser(argparse.ArgumentParser):
    """A parser that accepts overrides of recipe keys, and an epilog that is a function."""

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        """Set the recipe overrides aside: argparse would take their values for a RECIPE."""
        changes: list[str] = []
        if args is not None and self.get_default("takes_changes"):
            args, changes = self._split_changes(args)
        known, unknown = super().parse_known_args(args, namespace)
        return known, [*unknown, *changes]

    def _split_changes(self, argv: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the command's own arguments, and the recipe overrides as `--key=VALUE`."""
        own: list[str] = []
        changes: list[str] = []
        rest = list(argv)
        while rest and rest[0] != "--":
            flag = rest.pop(0)
            if not flag.startswith("--") or self._has_option(flag.partition("=")[0]):
                own.append(flag)
            elif "=" not in flag and rest and not rest[0].startswith("--"):
                changes.append(f"{flag}={rest.pop(0)}")
            else:
                changes.append(flag)
        return [*own, *rest], changes

    def _has_option(self, flag: str) -> bool:
        """Return True if this is an option of the command, perhaps abbreviated."""
        return any(option.startswith(flag) for option in self._option_string_actions)

    def error(self, message: str) -> NoReturn:
        if not is_local_rank_zero():  # local rank 0 prints the error
            _wait_for_termination()
        super().error(message)

    def format_help(self) -> str:
        if callable(self.epilog):
            self.epilog = self.epilog()
        return super().format_help()


def _build_parser(names: Sequence[str] = VERBS) -> argparse.ArgumentParser:
    """Build the parser of these commands; only their modules are imported."""
    common = _Parser(add_help=False)
    group = common.add_argument_group("for every command")
    group.add_argument("--debug", action="store_true", help="show the traceback of an error")
    group.add_argument(
        "--threads", type=int, metavar="N", help="number of threads (default: one per core)"
    )
    _add_plugin_option(group)
    parser = _Parser(prog="workings", description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"workings {__version__}")
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in names:
        verb = import_module(f"workings.cli.{name}")
        sub = verbs.add_parser(name, parents=[common], help=verb.HELP, description=verb.__doc__)
        verb.add_arguments(sub)
        sub.set_defaults(run=verb.run, takes_changes=getattr(verb, "CHANGES", False))
    return parser


# -- shared by the commands: options ---------------------------------------------------------------


def add_layer_and_head_options(parser: argparse.ArgumentParser, default: str) -> None:
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


def add_search_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of beam search and sampling; `resolve_search` reads them."""
    recipe = "default: the recipe's"
    parser.add_argument("--beams", type=int, metavar="N", help=f"beam size ({recipe})")
    parser.add_argument(
        "--length-penalty",
        type=float,
        metavar="A",
        help=f"length penalty of beam search; 0: none ({recipe})",
    )
    parser.add_argument(
        "--n-best", type=int, metavar="N", help="print the N best outputs with their scores"
    )
    parser.add_argument(
        "--temperature",
        type=float,
        metavar="T",
        help="sample at this temperature, instead of beam search",
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", help="random seed of sampling (default: 0)"
    )


def resolve_search(
    config: "Search", arguments: argparse.Namespace
) -> "tuple[Search, Sampling | None]":
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


def check_show_options(arguments: argparse.Namespace, names: Sequence[str]) -> None:
    """Raise an error for options of --show without it: they would have no effect."""
    options = [f"--{name}" for name in names if getattr(arguments, name)]
    if options and not arguments.show:
        raise UserError(f"{options[0]} needs --show")


def add_picture_options(parser: argparse.ArgumentParser) -> None:
    """Add --width, --font-size and --theme; `read_picture_options` reads them."""
    group = parser.add_argument_group("pictures: .svg, .pdf and .png")
    group.add_argument(
        "--width",
        metavar="W",
        help="width: pixels, or a length like 12cm or 6in (default: fitting)",
    )
    group.add_argument(
        "--font-size",
        metavar="S",
        help="size of labels: pixels, or a length like 9pt (default: 12)",
    )
    group.add_argument(
        "--theme",
        metavar="THEME",
        help="light, dark or print, which is black on white (default: light; an .svg follows its "
        "reader)",
    )


def find_picture_format(arguments: argparse.Namespace) -> str | None:
    """Return the format of the picture to write: from --format or the suffix of --out."""
    file_format = getattr(arguments, "format", None)
    if file_format in (None, "text"):
        file_format = _suffix(arguments.out)
    return file_format if file_format in PICTURE_FORMATS else None


def read_picture_options(arguments: argparse.Namespace) -> "PictureStyle":
    """Return the style of the picture; check it and --out before a long computation."""
    from workings.render.picture_style import PictureStyle

    style = PictureStyle.parse(arguments.width, arguments.font_size, arguments.theme)
    options = [n for n in ("width", "font_size", "theme") if getattr(arguments, n) is not None]
    if options and find_picture_format(arguments) is None:
        option = options[0].replace("_", "-")
        raise UserError(f"--{option} needs a picture: --out FILE.svg, FILE.pdf or FILE.png")
    check_parent_folder(arguments.out)
    return style


# -- shared by the commands: input and output ------------------------------------------------------


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
        suffix = _suffix(out)
        if suffix not in (*FIGURE_FORMATS, *TEXT_SUFFIXES):
            suffixes = ", ".join(f".{name}" for name in FIGURE_FORMATS if name != "text")
            raise UserError(
                f"--out {out}: unknown suffix: expected {suffixes} or .txt, or give --format"
            )
        file_format = suffix if suffix in FIGURE_FORMATS else "text"
    if file_format in ("pdf", "png") and out is None:
        raise UserError(f"--format {file_format} needs --out FILE")
    return file_format


def _suffix(out: str | None) -> str:
    return Path(out or "").suffix.lower().removeprefix(".")


def write_result(
    result: Any, file_format: str | None, out: str | None, style: "PictureStyle | None" = None
) -> None:
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
        write_picture(picture(result), file_format, out, style)


def write_picture(
    picture: "Picture", file_format: str, out: str | None, style: "PictureStyle | None"
) -> None:
    """Write a picture; note text that is smaller than asked for, and characters without a font."""
    from workings.render.picture_style import LABEL_SIZE

    if style is not None:
        picture = picture.styled(style)
        size = style.font_size or LABEL_SIZE
        if picture.font_size < 0.99 * size:
            sys.stderr.write(
                f"workings: note: the text has {picture.font_size:.1f} px instead of {size:.1f}: "
                f"more needs a larger --width\n"
            )
    if file_format == "svg":
        write_output(picture.svg(), out)
        return
    if missing := picture.missing_characters():
        sys.stderr.write(
            f"workings: note: no font of this system has {truncate(missing)}: "
            "install one, such as Noto Sans, or write .svg\n"
        )
    write_output(picture.encode(file_format), out)


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


# -- torchrun: one process per machine prints the error that all of them raise --------------------


@contextmanager
def report_on_local_rank_zero() -> Iterator[None]:
    """Turn errors that all processes raise into `ErrorOnOtherRank`, except on local rank 0."""
    try:
        yield
    except (UserError, OSError) as error:
        if is_local_rank_zero():
            raise
        raise ErrorOnOtherRank(str(error)) from error


def _wait_for_termination() -> None:
    """Wait until torchrun ends this process; return after a timeout if it does not."""
    if "LOCAL_RANK" in os.environ:
        time.sleep(TERMINATION_TIMEOUT / 2 if is_local_rank_zero() else TERMINATION_TIMEOUT)


def _write_torchelastic_error(text: str) -> None:
    """Write the error file from which torchrun prints its summary."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if path is not None:
        extra = {"py_callstack": text, "timestamp": str(int(time.time()))}
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
            json.dump({"message": {"message": text, "extraInfo": extra}}, file)


def is_local_rank_zero() -> bool:
    """Return True in the first of the processes that torchrun started on this machine."""
    return os.environ.get("LOCAL_RANK", "0") == "0"


# -- threads ---------------------------------------------------------------------------------------
#
# OpenMP threads spin for milliseconds while they wait. On a busy machine this takes away the time
# that the thread they wait for needs, and a step takes ten times as long as on one thread. Threads
# that sleep at once lose most of what a second thread gains on a quiet machine, because a small
# model's pieces of work are short. So threads spin for some microseconds and then sleep;
# docs/threads.md has the measurements.


def set_num_threads(threads: int | None = None) -> int:
    """Set the number of threads of numpy and torch, and let idle ones sleep; return the number.

    Call it before either is imported: OpenMP reads the wait policy once, when it is loaded. The
    default is all cores that this process may use, divided by the processes that torchrun started
    on this machine. Environment variables that are already set win over the default, and `threads`
    wins over them.

    >>> set_num_threads(threads=1)
    1
    """
    if threads is not None:
        threads = _parse_positive("threads", str(threads))
        os.environ.update(dict.fromkeys(THREAD_COUNT_VARIABLES, str(threads)))
    elif given := os.environ.get("OMP_NUM_THREADS"):  # "4,2": four, and two for nested parallelism
        threads = _parse_positive("OMP_NUM_THREADS", given.split(",")[0])
    else:
        processes = os.environ.get("LOCAL_WORLD_SIZE", "1")  # set by torchrun
        threads = max(1, count_cores() // _parse_positive("LOCAL_WORLD_SIZE", processes))
        os.environ["OMP_NUM_THREADS"] = str(threads)
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "passive"
        os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)
    if torch := sys.modules.get("torch"):  # too late for the wait policy, but not for the number
        torch.set_num_threads(threads)
    return threads


def count_cores() -> int:
    """Return the number of cores that this process may use, by CPU affinity and cgroup quota.

    >>> 1 <= count_cores() <= os.cpu_count()
    True
    """
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
    else:  # macOS and Windows
        allowed = os.cpu_count() or 1
    try:
        quota, period = CGROUP_QUOTA_FILE.read_text().split()
        allowed = min(allowed, int(quota) // int(period))
    except (OSError, ValueError):  # no such file, or "max", which means no limit
        pass
    return max(1, allowed)


def _parse_positive(name: str, text: str) -> int:
    number = int(text) if text.strip().isdecimal() else 0
    if number < 1:
        raise UserError(f"{name}={text}: expected a whole number, 1 or more")
    return number
