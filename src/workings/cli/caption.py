"""Caption pictures with a trained captioner, and show the attention of each word."""

import argparse
from collections.abc import Iterator
from typing import Any

from workings.cli import (
    FIGURE_FORMATS,
    add_layer_and_head_options,
    add_picture_options,
    add_search_options,
    check_show_options,
    read_picture_options,
    resolve_search,
    to_single_line,
    write_result,
)

HELP = "caption pictures"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run_folder", metavar="RUN", help="folder of the run")
    parser.add_argument("pictures", metavar="PICTURE", nargs="*", help="picture files")
    parser.add_argument(
        "--test",
        type=int,
        metavar="N",
        action="append",
        default=[],
        help="the Nth test picture of the run, from 1; may be given several times",
    )
    add_search_options(parser)
    parser.add_argument("--show", action="store_true", help="draw the attention of each word")
    add_layer_and_head_options(parser, "the mean of all")
    parser.add_argument(
        "--format",
        choices=FIGURE_FORMATS,
        help="format of --show (default: from the suffix of --out)",
    )
    parser.add_argument("--out", metavar="FILE", help="write the figure of --show to a file")
    add_picture_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print one caption per line; with several pictures, also their names."""
    import sys
    from itertools import tee

    from workings.errors import UserError
    from workings.interpret.attention import caption_attention
    from workings.plain_text import escape_control
    from workings.tasks.captioning import Captioning
    from workings.training.runs import load

    check_show_options(arguments, ("layer", "head", "format", "out"))
    style = read_picture_options(arguments)
    task = load(arguments.run_folder, Captioning)
    search, sampling = resolve_search(task.recipe.search, arguments)
    errors: list[str] = []
    count = len(arguments.pictures) + len(arguments.test)
    if not count:
        raise UserError("no pictures: name files, or --test N for a test picture of the run")
    if arguments.show and count > 1:
        raise UserError(f"--show draws one picture; {count} were given")
    pictures, inputs = tee(_read_pictures(task, arguments, errors if count > 1 else None))
    captions = task.caption((pixels for _, pixels in inputs), search, sampling)
    for (name, pixels), candidates in zip(pictures, captions, strict=True):
        if arguments.show:
            layers, heads = arguments.layer, arguments.head
            attention = caption_attention(
                task, pixels, candidates[0], name, layers=layers, heads=heads
            )
            write_result(attention, arguments.format, arguments.out, style)
            continue
        for caption in candidates[: arguments.n_best or 1]:
            score = "" if arguments.n_best is None else f"{caption.score:.4f}\t"
            label = f"{escape_control(name)}\t" if count > 1 else ""
            sys.stdout.write(f"{label}{score}{to_single_line(caption.text)}\n")
        sys.stdout.flush()
    for error in errors:
        sys.stderr.write(f"workings: {escape_control(error)}\n")
    return 2 if errors else 0


def _read_pictures(
    task: Any, arguments: argparse.Namespace, errors: list[str] | None
) -> Iterator[tuple[str, Any]]:
    """Yield names and pixels; an unreadable picture goes to `errors`, or is raised if None."""
    from pathlib import Path

    from workings.data.captions import read_image
    from workings.errors import UserError

    for file in arguments.pictures:
        try:
            yield Path(file).name, read_image(Path(file), task.recipe.data.image_size)
        except UserError as error:
            if errors is None:
                raise
            errors.append(str(error))
    if not arguments.test:
        return
    test_set = task.load_test_set()
    pictures, pixels = test_set.images["test"], test_set.pixels["test"]
    for number in arguments.test:
        if not 1 <= number <= len(pictures):
            raise UserError(f"--test {number}: there are {len(pictures):,} test pictures")
        yield pictures[number - 1].name, pixels[number - 1]
