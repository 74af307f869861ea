"""Translate sentences by a trained translator, and show what it looked at."""

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from workings.cli.output import FIGURE_FORMATS, add_layer_and_head_options, add_search_options

if TYPE_CHECKING:
    from workings.tasks.seq2seq import Generation
    from workings.tasks.translation import Translation

HELP = "translate sentences"
_SUFFIXES = ("txt", "tsv", "csv", "json", "jsonl", "md")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("run_folder", metavar="RUN", help="the folder of the run")
    parser.add_argument(
        "texts",
        metavar="TEXT",
        nargs="*",
        help="a sentence, a file, or - (a sentence a line); none: asks for them",
    )
    add_search_options(parser, "translation")
    parser.add_argument("--show", action="store_true", help="draw the alignment")
    parser.add_argument("--words", action="store_true", help="join pieces of words in it")
    add_layer_and_head_options(parser, "the mean of all")
    parser.add_argument("--format", choices=FIGURE_FORMATS, help="of the alignment: as --out ends")
    parser.add_argument("--out", metavar="FILE", help="write the alignment to a file")


def run(arguments: argparse.Namespace) -> int:
    """Translate, as the sentences come."""
    import sys
    from itertools import count

    from workings.cli.output import resolve_search, to_single_line
    from workings.errors import UserError
    from workings.interop.ctranslate2 import AcceleratedBeamSearch
    from workings.interpret.attention_maps import check_single_sentence
    from workings.plain_text import escape_control
    from workings.tasks.translation import Translation
    from workings.training.runs import load_as

    _check_options(arguments)
    task = load_as(Translation, arguments.run_folder)
    how, sampling = resolve_search(task.recipe.search, arguments)
    by = AcceleratedBeamSearch(task.model, num_best=arguments.n_best or 1)
    asks = not arguments.texts and sys.stdin.isatty() and sys.stdout.isatty()
    if asks and arguments.out is not None:
        raise UserError("--out is of one sentence: give it, or look at them here without --out")
    if asks:
        way = f"{task.recipe.data.source} → {task.recipe.data.target}"
        sys.stderr.write(f"{escape_control(way)}, a sentence a line; Ctrl-D ends\n")
    numbers, endings = count(1), (*_SUFFIXES, task.recipe.data.source, task.recipe.data.target)
    if arguments.show:
        for source in (
            filter(str.strip, _prompt_sentences())
            if asks
            else _read_single_sentence(arguments.texts, endings)
        ):
            try:
                check_single_sentence(task, source)
                (found,) = task.translate([source], how, sampling, by)
                _show_alignment(task, source, found[0], arguments)
            except UserError as error:  # the next sentence may be a better one
                if not asks:
                    raise
                sys.stderr.write(f"workings: {escape_control(str(error))}\n")
        return 0
    # Whoever sits at a terminal wants an answer to each sentence; others are faster together.
    given = (
        ([line] for line in _prompt_sentences())
        if asks
        else (_read_sentences(arguments.texts, endings),)
    )
    for texts in given:
        for found, number in zip(task.translate(texts, how, sampling, by), numbers, strict=False):
            if arguments.n_best is None:
                sys.stdout.write(to_single_line(found[0].text) + "\n")
            else:
                for one in found:
                    sys.stdout.write(f"{number}\t{one.score:.4f}\t{to_single_line(one.text)}\n")
            sys.stdout.flush()
    return 0


def _prompt_sentences() -> Iterator[str]:
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


def _check_options(arguments: argparse.Namespace) -> None:
    """Refuse options that contradict each other, or would be passed over."""
    from workings.cli.output import check_show_options

    check_show_options(arguments, ("words", "layer", "head", "format", "out"), "the alignment")


def _read_single_sentence(texts: list[str], suffixes: Sequence[str]) -> list[str]:
    from workings.errors import UserError

    found = list(_read_sentences(texts, suffixes))
    if len(found) != 1:
        raise UserError(f"--show draws one sentence, and {len(found)} were given")
    return found


def _show_alignment(
    task: "Translation", source: str, target: "Generation", arguments: argparse.Namespace
) -> None:
    import sys

    from workings.cli.output import to_single_line, write_result
    from workings.interpret.attention_maps import compute_alignment

    found = compute_alignment(
        task,
        source,
        target,
        layers=arguments.layer,
        heads=arguments.head,
        whole_words=arguments.words,
    )
    write_result(found, arguments.format, arguments.out)
    if arguments.out is not None:
        sys.stdout.write(to_single_line(target.text) + "\n")


def _read_sentences(texts: list[str], suffixes: Sequence[str]) -> Iterator[str]:
    """Every sentence of what was given: itself, or the lines of a file or of standard input."""
    import sys

    from workings.data.readers import read_lines
    from workings.errors import UserError
    from workings.io import existing_path

    for text in texts or ["-"]:
        if text == "-":
            yield from (line.rstrip("\r\n") for _, line in read_lines(sys.stdin.buffer))
        elif (path := existing_path(text)) and not path.is_dir():
            yield from (line.rstrip("\r\n") for _, line in read_lines(text))
        elif _is_probably_filename(text, suffixes):
            raise UserError(f"{text}: no such file (a text that is called so: through -)")
        else:
            yield text


def _is_probably_filename(text: str, suffixes: Sequence[str]) -> bool:
    """Whether a text is more likely to be the name of a file than a sentence.

    >>> [_is_probably_filename(t, ("de",)) for t in ("test.de.gz", "TEST.DE", "Node.js", "Danke.")]
    [True, True, False, False]
    """
    import os.path

    name = text.lower().removesuffix(".gz")
    ends = any(name.endswith(f".{ending.lower()}") for ending in suffixes)
    in_a_folder = "/" in text and os.path.isdir(os.path.dirname(text))  # noqa: PTH112, PTH120 - any length
    return " " not in text and (ends or in_a_folder)
