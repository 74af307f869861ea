"""The command line: one module per verb, without logic. `--help` imports no torch or numpy."""

import argparse
import io
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from workings import __version__
from workings.errors import ErrorOnOtherRank, UserError, did_you_mean, install_hint, truncate

# Each is a module of this package with HELP, add_arguments(parser) and run(arguments) -> status.
VERBS = (
    "solve",
    "check",
    "make",
    "grade",
    "serve",
    "train",
    "resume",
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
    "gradients",
    "export",
    "import",
    "tokens",
    "summary",
    "compare",
    "diff",
    "why",
)

DESCRIPTION = """\
Sequence models, from RNN to Transformer, that show their workings.
"""

TERMINATION_TIMEOUT = 10.0  # seconds; torchrun ends the other processes when one fails
# MKL and OpenBLAS read OpenMP's variable as well, unless their own is set.
THREAD_COUNT_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
SPIN_COUNT = "1000"  # for GNU's OpenMP, which torch uses on Linux; others sleep at once
CGROUP_QUOTA_FILE = Path("/sys/fs/cgroup/cpu.max")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; return the exit status: 2 for a user error."""
    for stream in (sys.stdout, sys.stderr):  # the code page of the terminal may lack our symbols
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    argv = sys.argv[1:] if argv is None else argv
    try:
        with report_on_local_rank_zero():
            _check_verb(argv)
    except UserError as error:
        return _report_error(error)
    parser = _build_parser(argv[:1] if argv and argv[0] in VERBS else VERBS)
    arguments, changes = parser.parse_known_args(argv)
    if changes and not arguments.takes_changes:
        parser.error(f"unrecognized arguments: {' '.join(changes)}")
    arguments.changes, arguments.status = changes, 0
    try:
        set_num_threads(arguments.threads)
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


def _check_verb(argv: Sequence[str]) -> None:
    """Raise a one-line error for an unknown verb; argparse would list all verbs."""
    if argv and not argv[0].startswith("-") and argv[0] not in VERBS:
        raise UserError(f"{truncate(argv[0])}: no such verb: {did_you_mean(argv[0], VERBS)}")


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
    """A parser that accepts changes of a recipe, and an epilog that is a function."""

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        """Parse without the changes of a recipe: argparse would take their values for a RECIPE."""
        changes: list[str] = []
        if args is not None and self.get_default("takes_changes"):
            args, changes = self._split_changes(args)
        known, unknown = super().parse_known_args(args, namespace)
        return known, [*unknown, *changes]

    def _split_changes(self, argv: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the arguments of the verb, and the changes of a recipe as `--key=VALUE`."""
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
        """Return True if this is an option of the verb, perhaps abbreviated."""
        return any(option.startswith(flag) for option in self._option_string_actions)

    def error(self, message: str) -> NoReturn:
        if not _is_local_rank_zero():  # local rank 0 prints the error
            _wait_for_termination()
        super().error(message)

    def format_help(self) -> str:
        if callable(self.epilog):
            self.epilog = self.epilog()
        return super().format_help()


def _build_parser(names: Sequence[str] = VERBS) -> argparse.ArgumentParser:
    """Build the parser of these verbs; only their modules are imported."""
    common = _Parser(add_help=False)
    group = common.add_argument_group("for every verb")
    group.add_argument("--debug", action="store_true", help="show the traceback of an error")
    group.add_argument("--threads", type=int, metavar="N", help="number of compute threads")
    parser = _Parser(prog="workings", description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"workings {__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for name in names:
        verb = import_module(f"workings.cli.{name}")
        sub = verbs.add_parser(name, parents=[common], help=verb.HELP, description=verb.__doc__)
        verb.add_arguments(sub)
        sub.set_defaults(run=verb.run, takes_changes=getattr(verb, "CHANGES", False))
    return parser


# -- torchrun: one process per machine prints the error that all of them raise --------------------


@contextmanager
def report_on_local_rank_zero() -> Iterator[None]:
    """Turn errors that all processes raise into `ErrorOnOtherRank`, except on local rank 0."""
    try:
        yield
    except (UserError, OSError) as error:
        if _is_local_rank_zero():
            raise
        raise ErrorOnOtherRank(str(error)) from error


def _wait_for_termination() -> None:
    """Wait until torchrun ends this process; return after a timeout if it does not."""
    if "LOCAL_RANK" in os.environ:
        time.sleep(TERMINATION_TIMEOUT / 2 if _is_local_rank_zero() else TERMINATION_TIMEOUT)


def _write_torchelastic_error(text: str) -> None:
    """Write the error file from which torchrun prints its summary."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if path is not None:
        import json

        extra = {"py_callstack": text, "timestamp": str(int(time.time()))}
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
            json.dump({"message": {"message": text, "extraInfo": extra}}, file)


def _is_local_rank_zero() -> bool:
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
