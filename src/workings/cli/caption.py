"""Describe pictures by a trained captioner, and show where it looked for each word."""

import argparse
from collections.abc import Iterator
from typing import Any

from workings.cli.output import PICTURED, add_layers_and_heads, add_search

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
    add_search(parser, "caption")
    parser.add_argument("--show", action="store_true", help="draw where it looked for each word")
    add_layers_and_heads(parser, "the mean of all")
    parser.add_argument("--format", choices=PICTURED, help="of what --show draws: as --out ends")
    parser.add_argument("--out", metavar="FILE", help="write what --show draws to a file")


def run(arguments: argparse.Namespace) -> int:
    """Describe, a picture a line; several with their names."""
    import sys
    from itertools import tee

    from workings.cli.output import expect_shown, on_a_line, show, wanted_search
    from workings.errors import UserError
    from workings.lens.glances import glances
    from workings.tasks.caption import Captioning
    from workings.train.runs import load_as
    from workings.views.plain import printable

    expect_shown(arguments, ("layer", "head", "format", "out"), "the picture")
    task = load_as(Captioning, arguments.run_folder)
    how, sampling = wanted_search(task.recipe.search, arguments)
    refused: list[str] = []
    count = len(arguments.pictures) + len(arguments.test)
    if not count:
        raise UserError("which pictures? Name files, or --test N for one of the run's own")
    if arguments.show and count > 1:
        raise UserError(f"--show draws one picture, and {count} were given")
    named, seen = tee(_named(task, arguments, refused if count > 1 else None))
    captions = task.caption((pixels for _, pixels in seen), how, sampling)
    for (name, pixels), found in zip(named, captions, strict=True):
        if arguments.show:
            layers, heads = arguments.layer, arguments.head
            told = glances(task, pixels, found[0], name, layers=layers, heads=heads)
            show(told, arguments.format, arguments.out)
            continue
        for one in found[: arguments.n_best or 1]:
            score = "" if arguments.n_best is None else f"{one.score:.4f}\t"
            label = f"{printable(name)}\t" if count > 1 else ""
            sys.stdout.write(f"{label}{score}{on_a_line(one.text)}\n")
        sys.stdout.flush()
    for why in refused:
        sys.stderr.write(f"workings: {printable(why)}\n")
    return 2 if refused else 0


def _named(
    task: Any, arguments: argparse.Namespace, refused: list[str] | None
) -> Iterator[tuple[str, Any]]:
    """The pictures that were asked for, with their names; among others, one may be refused."""
    from pathlib import Path

    from workings.data.captions import read_picture
    from workings.errors import UserError

    for file in arguments.pictures:
        try:
            yield Path(file).name, read_picture(Path(file), task.recipe.data.pixels)
        except UserError as error:
            if refused is None:
                raise
            refused.append(str(error))
    if not arguments.test:
        return
    held = task.test_set()
    pictures, pixels = held.pictures["test"], held.pixels["test"]
    for number in arguments.test:
        if not 1 <= number <= len(pictures):
            raise UserError(f"--test {number}: there are {len(pictures):,} test pictures")
        yield pictures[number - 1].name, pixels[number - 1]
