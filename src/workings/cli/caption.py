"""Describe pictures by a trained captioner, and show where it looked for each word."""

import argparse
from collections.abc import Iterator
from typing import Any

from workings.cli.output import FIGURE_FORMATS, add_layer_and_head_options, add_search_options

HELP = "describe pictures"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("run_folder", metavar="RUN", help="the folder of the run")
    parser.add_argument("pictures", metavar="PICTURE", nargs="*", help="files of pictures")
    parser.add_argument(
        "--test",
        type=int,
        metavar="N",
        action="append",
        default=[],
        help="the Nth of the run's own test pictures, from 1; may be given several times",
    )
    add_search_options(parser, "caption")
    parser.add_argument("--show", action="store_true", help="draw where it looked for each word")
    add_layer_and_head_options(parser, "the mean of all")
    parser.add_argument(
        "--format", choices=FIGURE_FORMATS, help="of what --show draws: as --out ends"
    )
    parser.add_argument("--out", metavar="FILE", help="write what --show draws to a file")


def run(arguments: argparse.Namespace) -> int:
    """Describe, a picture a line; several with their names."""
    import sys
    from itertools import tee

    from workings.cli.output import check_show_options, resolve_search, to_single_line, write_result
    from workings.errors import UserError
    from workings.interpret.attention_maps import caption_attention
    from workings.plain_text import escape_control
    from workings.tasks.captioning import Captioning
    from workings.training.runs import load_as

    check_show_options(arguments, ("layer", "head", "format", "out"), "the picture")
    task = load_as(Captioning, arguments.run_folder)
    how, sampling = resolve_search(task.recipe.search, arguments)
    refused: list[str] = []
    count = len(arguments.pictures) + len(arguments.test)
    if not count:
        raise UserError("which pictures? Name files, or --test N for one of the run's own")
    if arguments.show and count > 1:
        raise UserError(f"--show draws one picture, and {count} were given")
    named, seen = tee(_read_pictures(task, arguments, refused if count > 1 else None))
    captions = task.caption((pixels for _, pixels in seen), how, sampling)
    for (name, pixels), found in zip(named, captions, strict=True):
        if arguments.show:
            layers, heads = arguments.layer, arguments.head
            told = caption_attention(task, pixels, found[0], name, layers=layers, heads=heads)
            write_result(told, arguments.format, arguments.out)
            continue
        for one in found[: arguments.n_best or 1]:
            score = "" if arguments.n_best is None else f"{one.score:.4f}\t"
            label = f"{escape_control(name)}\t" if count > 1 else ""
            sys.stdout.write(f"{label}{score}{to_single_line(one.text)}\n")
        sys.stdout.flush()
    for why in refused:
        sys.stderr.write(f"workings: {escape_control(why)}\n")
    return 2 if refused else 0


def _read_pictures(
    task: Any, arguments: argparse.Namespace, errors: list[str] | None
) -> Iterator[tuple[str, Any]]:
    """The pictures that were asked for, with their names; among others, one may be refused."""
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
    held = task.load_test_set()
    pictures, pixels = held.images["test"], held.pixels["test"]
    for number in arguments.test:
        if not 1 <= number <= len(pictures):
            raise UserError(f"--test {number}: there are {len(pictures):,} test pictures")
        yield pictures[number - 1].name, pixels[number - 1]
