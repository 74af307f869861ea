"""Train a model from a recipe, or on your own data without one."""

import argparse
from contextlib import contextmanager
from typing import TYPE_CHECKING

from workings.cli import (
    RECIPE_HELP,
    is_local_rank_zero,
    report_on_local_rank_zero,
    terminal_width,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workings.config import Field
    from workings.training.logging import LogMode

HELP = "train a model from a recipe, or on your own data"
TRACKERS = ("tensorboard", "wandb", "mlflow")
CHANGES = True  # --section.key VALUE changes the recipe


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("recipe", metavar="RECIPE", nargs="?", help=RECIPE_HELP)
    parser.add_argument(
        "--repeat", metavar="RUN", help="repeat a run: its recipe, with the same number of threads"
    )
    parser.add_argument(
        "--from",
        metavar="RUN",
        dest="start_from",
        help="fine-tune: start from the weights of a run, or of a model in Hugging Face's format; "
        "without a RECIPE, with that of the run",
    )
    parser.add_argument(
        "--task",
        choices=("classify", "language", "translate", "caption"),
        help="what to learn from your own --data, without a recipe",
    )
    parser.add_argument(
        "--data", metavar="FILE", help="your own data: a file, a folder, or hf:NAME"
    )
    parser.add_argument(
        "--minutes", type=float, metavar="M", help="time for your own data (default: 5)"
    )
    parser.add_argument("--out", metavar="RUN", help="folder of the run (default: runs/NAME)")
    parser.add_argument(
        "--record", metavar="FILE", help="also write the result and the curves to a file"
    )
    add_log_options(parser)
    parser.usage = (
        "workings train RECIPE [--out RUN] [--section.key VALUE …]\n"
        "       workings train [RECIPE] --from RUN [--out RUN] [--section.key VALUE …]\n"
        "       workings train --task TASK --data FILE [--minutes M] [--section.key VALUE …]\n"
        "       workings train --from RUN --data FILE [--task TASK] [--minutes M]\n"
        "       workings train --repeat RUN --out RUN"
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = keys_help  # type: ignore[assignment]


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """Add --quiet, --json and --log."""
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument(
        "--quiet", dest="mode", action="store_const", const="quiet", help="print nothing"
    )
    modes.add_argument(
        "--json", dest="mode", action="store_const", const="json", help="print the log as JSON"
    )
    parser.set_defaults(mode="progress")
    parser.add_argument(
        "--log",
        dest="trackers",
        action="append",
        choices=TRACKERS,
        default=[],
        help="write the log to an experiment tracker as well; may be given several times",
    )


def keys_help() -> str:
    """Return the names of the built-in recipes and the help of all keys of a recipe."""
    from textwrap import fill

    from workings.builtin import builtin_recipes
    from workings.config import describe
    from workings.recipes import RECIPES
    from workings.registry import import_installed_plugins

    import_installed_plugins()
    names = fill(
        f"built-in recipes: {', '.join(builtin_recipes())}",
        terminal_width(),
        break_on_hyphens=False,
    )
    lines = [names, "", "keys of a recipe, each --section.key on the command line:"]
    listed: set[Field] = set()
    for task, (recipe, kinds) in RECIPES.items():
        fields = [f for f in describe(recipe) if f.key != "model"]
        lines.append(f"with task = {task}:")
        lines += [_format_field(f) for f in fields if f not in listed and f.key != "task"]
        lines.append(f"  {'model.kind':<22} {', '.join(kinds)}")
        lines.append(f"  {'model.size':<22} small, medium or large: defaults of the other keys")
        for kind, config in kinds.items():
            lines.append(f"with task = {task} and model.kind = {kind}:")
            lines += [_format_field(f) for f in describe(config, "model.")]
        listed |= set(fields)
    return "\n".join(lines)


def _format_field(field: "Field") -> str:
    default = "none" if field.default is None else field.default
    return f"  {field.key:<22} {field.help} [{default}]"


def run(arguments: argparse.Namespace) -> int:
    """Train a recipe, repeat a run, or train on data without a recipe."""
    import sys
    from pathlib import Path

    from workings.automatic.planning import check_is_recipe
    from workings.errors import UserError
    from workings.plain_text import escape_control
    from workings.recipes import read_recipe

    if arguments.task is not None or arguments.data is not None:
        return _train_own_data(arguments)
    if arguments.minutes is not None:
        raise UserError("--minutes is for --task and --data; for a recipe: --train.minutes M")
    repeated = None if arguments.repeat is None else Path(arguments.repeat)
    path = None if arguments.recipe is None else Path(arguments.recipe)
    start_from = arguments.start_from
    with report_on_local_rank_zero():
        if path is None and repeated is None and start_from is None:
            raise UserError(
                "workings train needs a RECIPE, --task and --data, --from RUN or --repeat RUN"
            )
        if repeated is not None and (path is not None or start_from is not None):
            raise UserError("--repeat RUN has a recipe: it goes with neither RECIPE nor --from")
        if path is not None and path.exists():
            check_is_recipe(path)
        if path is not None:  # errors come before torch is imported
            recipe = read_recipe(path, arguments.changes, start_from=start_from)
            name = path.stem

    with _show_loading(arguments.mode):
        from workings.interop.formats import describe_formats
        from workings.training.finetuning import read_start_recipe
        from workings.training.runs import restore_environment, train_recipe, write_record
        from workings.training.trainer import TrainingInterrupt

    if repeated is not None:
        with report_on_local_rank_zero():
            for change in restore_environment(repeated):
                sys.stderr.write(
                    f"workings: note: {escape_control(change)}: the weights may differ\n"
                )
            recipe = read_recipe(repeated / "config.toml", arguments.changes)
        name = f"{repeated.name}-repeat"
    elif path is None:
        with report_on_local_rank_zero():
            recipe = read_start_recipe(start_from, arguments.changes)
        name = f"{Path(start_from).name}-finetuned"
    out = arguments.out or Path("runs") / name
    with report_on_local_rank_zero():
        # With --from, the model is not yet known.
        is_described = arguments.mode == "progress" and not recipe.start_from
        formats = describe_formats(recipe) if is_described else ""
    if formats and is_local_rank_zero():
        sys.stderr.write(f"workings: note: {escape_control(formats)}\n")
    try:
        train_recipe(
            recipe, out, mode=arguments.mode, repeat_of=repeated, trackers=arguments.trackers
        )
        if arguments.record:
            write_record(Path(out), Path(arguments.record))
    except TrainingInterrupt as interrupt:
        return interrupt.exit_status
    return 0


@contextmanager
def _show_loading(mode: "LogMode") -> "Iterator[None]":
    """Show a progress bar while torch is imported, which takes seconds on a busy machine."""
    import sys

    from workings.training.progress_bar import ProgressBar

    bar = ProgressBar(sys.stderr, enabled=mode == "progress" and is_local_rank_zero())
    bar.update(0, 1, "loading torch")
    try:
        yield
    finally:
        bar.clear()


def _train_own_data(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from workings.config import override
    from workings.errors import UserError
    from workings.recipes import list_recipe_keys

    with report_on_local_rank_zero():
        start_from = arguments.start_from
        if arguments.data is None or (arguments.task is None and start_from is None):
            raise UserError(
                "--task and --data go together: workings train --task classify --data FILE"
            )
        if arguments.recipe is not None or arguments.repeat is not None:
            raise UserError(
                "--task and --data are instead of a recipe; for a recipe's data: --data.set FILE"
            )
        stated = override({}, arguments.changes, list_recipe_keys())

    with _show_loading(arguments.mode):
        from workings.interop.formats import describe_formats
        from workings.training.finetuning import load_pretrained
        from workings.training.own_data import DEFAULT_MINUTES, train_own_data
        from workings.training.runs import write_record
        from workings.training.trainer import TrainingInterrupt

    out = arguments.out or Path("runs") / Path(arguments.data).name.partition(".")[0]
    minutes = DEFAULT_MINUTES if arguments.minutes is None else arguments.minutes
    with report_on_local_rank_zero():
        pretrained = None if start_from is None else load_pretrained(start_from)
        task = arguments.task or (pretrained.task.recipe.task if pretrained else "")
    try:
        train_own_data(
            task,
            arguments.data,
            out,
            minutes=minutes,
            stated=stated,
            pretrained=pretrained,
            mode=arguments.mode,
            trackers=arguments.trackers,
            describe_exports=describe_formats,
        )
        if arguments.record:
            write_record(Path(out), Path(arguments.record))
    except TrainingInterrupt as interrupt:
        return interrupt.exit_status
    return 0
