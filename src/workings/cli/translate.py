"""Translate sentences by a trained translator, and show what it looked at."""

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from workings.cli.output import PICTURED, add_layers_and_heads, add_search

if TYPE_CHECKING:
    from workings.tasks.translate import Translating
    from workings.tasks.writing import Written

HELP = "translate sentences"
_ENDINGS = ("txt", "tsv", "csv", "json", "jsonl", "md")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("run_folder", metavar="RUN", help="the folder of the run")
    parser.add_argument(
        "texts",
        metavar="TEXT",
        nargs="*",
        help="a sentence, a file, or - (a sentence a line); none: asks for them",
    )
    add_search(parser, "translation")
    parser.add_argument("--show", action="store_true", help="draw the alignment")
    parser.add_argument("--words", action="store_true", help="join pieces of words in it")
    add_layers_and_heads(parser, "the mean of all")
    parser.add_argument("--format", choices=PICTURED, help="of the alignment: as --out ends")
    parser.add_argument("--out", metavar="FILE", help="write the alignment to a file")


def run(arguments: argparse.Namespace) -> int:
    """Translate, as the sentences come."""
    import sys
    from itertools import count

    from workings.cli.output import on_a_line, wanted_search
    from workings.errors import UserError
    from workings.hub.fast import FastestSearch
    from workings.lens.alignments import expect_a_sentence
    from workings.tasks.translate import Translating
    from workings.train.runs import load_as
    from workings.views.plain import printable

    _expect_sense(arguments)
    task = load_as(Translating, arguments.run_folder)
    how, sampling = wanted_search(task.recipe.search, arguments)
    by = FastestSearch(task.model, best=arguments.n_best or 1)
    asks = not arguments.texts and sys.stdin.isatty() and sys.stdout.isatty()
    if asks and arguments.out is not None:
        raise UserError("--out is of one sentence: give it, or look at them here without --out")
    if asks:
        way = f"{task.recipe.data.source} → {task.recipe.data.target}"
        sys.stderr.write(f"{printable(way)}, a sentence a line; Ctrl-D ends\n")
    numbers, endings = count(1), (*_ENDINGS, task.recipe.data.source, task.recipe.data.target)
    if arguments.show:
        for source in filter(str.strip, _asked()) if asks else _one(arguments.texts, endings):
            try:
                expect_a_sentence(task, source)
                (found,) = task.translate([source], how, sampling, by)
                _show(task, source, found[0], arguments)
            except UserError as error:  # the next sentence may be a better one
                if not asks:
                    raise
                sys.stderr.write(f"workings: {printable(str(error))}\n")
        return 0
    # Whoever sits at a terminal wants an answer to each sentence; others are faster together.
    given = ([line] for line in _asked()) if asks else (_sentences(arguments.texts, endings),)
    for texts in given:
        for found, number in zip(task.translate(texts, how, sampling, by), numbers, strict=False):
            if arguments.n_best is None:
                sys.stdout.write(on_a_line(found[0].text) + "\n")
            else:
                for one in found:
                    sys.stdout.write(f"{number}\t{one.score:.4f}\t{on_a_line(one.text)}\n")
            sys.stdout.flush()
    return 0


def _asked() -> Iterator[str]:
    """Sentences that are typed, until the end of input."""
    import sys
    from contextlib import suppress

    with suppress(ImportError):  # not on Windows: it lets one edit the line, and go back to others
        import readline  # noqa: F401
    while True:
        try:
            yield input("> ")
        except EOFError:
            sys.stdout.write("\n")
            return


def _expect_sense(arguments: argparse.Namespace) -> None:
    """Refuse options that contradict each other, or would be passed over."""
    from workings.cli.output import expect_shown

    expect_shown(arguments, ("words", "layer", "head", "format", "out"), "the alignment")


def _one(texts: list[str], endings: Sequence[str]) -> list[str]:
    from workings.errors import UserError

    found = list(_sentences(texts, endings))
    if len(found) != 1:
        raise UserError(f"--show draws one sentence, and {len(found)} were given")
    return found


def _show(
    task: "Translating", source: str, target: "Written", arguments: argparse.Namespace
) -> None:
    import sys

    from workings.cli.output import on_a_line, show
    from workings.lens.alignments import alignment

    found = alignment(
        task,
        source,
        target,
        layers=arguments.layer,
        heads=arguments.head,
        whole_words=arguments.words,
    )
    show(found, arguments.format, arguments.out)
    if arguments.out is not None:
        sys.stdout.write(on_a_line(target.text) + "\n")


def _sentences(texts: list[str], endings: Sequence[str]) -> Iterator[str]:
    """Every sentence of what was given: itself, or the lines of a file or of standard input."""
    import sys

    from workings.data.lines import lines
    from workings.errors import UserError
    from workings.files import named_by

    for text in texts or ["-"]:
        if text == "-":
            yield from (line.rstrip("\r\n") for _, line in lines(sys.stdin.buffer))
        elif (path := named_by(text)) and not path.is_dir():
            yield from (line.rstrip("\r\n") for _, line in lines(text))
        elif _is_like_a_file(text, endings):
            raise UserError(f"{text}: no such file (a text that is called so: through -)")
        else:
            yield text


def _is_like_a_file(text: str, endings: Sequence[str]) -> bool:
    """Whether a text is more likely to be the name of a file than a sentence.

    >>> [_is_like_a_file(t, ("de",)) for t in ("test.de.gz", "TEST.DE", "Node.js", "Danke.")]
    [True, True, False, False]
    """
    import os.path

    name = text.lower().removesuffix(".gz")
    ends = any(name.endswith(f".{ending.lower()}") for ending in endings)
    in_a_folder = "/" in text and os.path.isdir(os.path.dirname(text))  # noqa: PTH112, PTH120 - any length
    return " " not in text and (ends or in_a_folder)
