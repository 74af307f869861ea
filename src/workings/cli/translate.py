"""Translate sentences with a trained translator, and show the alignment."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from workings.cli import (
    FIGURE_FORMATS,
    add_layer_and_head_options,
    add_picture_options,
    add_search_options,
    check_not_folder,
    check_show_options,
    read_picture_options,
    resolve_search,
    to_single_line,
    write_result,
)

if TYPE_CHECKING:
    from workings.render.picture_style import PictureStyle
    from workings.tasks.base import Generation
    from workings.tasks.translation import Translation

HELP = "translate sentences"
_SUFFIXES = ("txt", "tsv", "csv", "json", "jsonl", "md")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run_folder", metavar="RUN", help="folder of the run")
    parser.add_argument(
        "texts",
        metavar="TEXT",
        nargs="*",
        help="sentence, file with one sentence per line, or - for standard input (default: ask for "
        "sentences)",
    )
    add_search_options(parser)
    parser.add_argument(
        "--show", action="store_true", help="draw the alignment (attention weights)"
    )
    parser.add_argument(
        "--words", action="store_true", help="merge subwords to words in the alignment"
    )
    add_layer_and_head_options(parser, "the mean of all")
    parser.add_argument(
        "--format",
        choices=FIGURE_FORMATS,
        help="format of --show (default: from the suffix of --out)",
    )
    parser.add_argument("--out", metavar="FILE", help="write the alignment to a file")
    add_picture_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print translations while the sentences are read."""
    import sys
    from itertools import count

    from workings.data.readers import ItemsUntilError
    from workings.errors import UserError
    from workings.interop.ctranslate2 import AcceleratedBeamSearch
    from workings.plain_text import escape_control
    from workings.tasks.translation import Translation
    from workings.training.runs import load

    check_show_options(arguments, ("words", "layer", "head", "format", "out"))
    style = read_picture_options(arguments)
    task = load(arguments.run_folder, Translation)
    search, sampling = resolve_search(task.recipe.search, arguments)
    beam_search = AcceleratedBeamSearch(task.model, num_best=arguments.n_best or 1)
    is_interactive = not arguments.texts and sys.stdin.isatty() and sys.stdout.isatty()
    if is_interactive and arguments.out is not None:
        raise UserError("--out needs a sentence as TEXT")
    if is_interactive:
        languages = f"{task.recipe.data.source} → {task.recipe.data.target}"
        sys.stderr.write(f"{escape_control(languages)}, one sentence per line; Ctrl-D ends\n")
    numbers, suffixes = count(1), (*_SUFFIXES, task.recipe.data.source, task.recipe.data.target)
    if arguments.show:
        for source in (
            filter(str.strip, _prompt_sentences())
            if is_interactive
            else _read_single_sentence(arguments.texts, suffixes)
        ):
            try:
                task.check_single_sentence(source)
                (candidates,) = task.translate([source], search, sampling, beam_search)
                _show_alignment(task, source, candidates[0], arguments, style)
            except UserError as error:  # the prompt continues with the next sentence
                if not is_interactive:
                    raise
                sys.stderr.write(f"workings: {escape_control(str(error))}\n")
        return 0
    # A prompt translates each sentence at once; other input is faster in batches.
    # Batches read ahead: an error in a file is raised after the lines before it are translated.
    sentences = ItemsUntilError(_read_sentences(arguments.texts, suffixes))
    batches: Iterable[Iterable[str]] = (
        ([line] for line in _prompt_sentences()) if is_interactive else (sentences,)
    )
    for texts in batches:
        translations = task.translate(texts, search, sampling, beam_search)
        for candidates, number in zip(translations, numbers, strict=False):
            if arguments.n_best is None:
                sys.stdout.write(to_single_line(candidates[0].text) + "\n")
            else:
                for candidate in candidates:
                    text = to_single_line(candidate.text)
                    sys.stdout.write(f"{number}\t{candidate.score:.4f}\t{text}\n")
            sys.stdout.flush()
    sentences.raise_error()
    return 0


def _prompt_sentences() -> Iterator[str]:
    """Yield the sentences that the user types, until the end of input."""
    import sys
    from contextlib import suppress

    with suppress(ImportError):  # Windows has no readline: editing and history of lines
        import readline  # noqa: F401
    while True:
        try:
            yield input("> ")
        except EOFError:
            sys.stdout.write("\n")
            return


def _read_single_sentence(texts: list[str], suffixes: Sequence[str]) -> list[str]:
    from workings.errors import UserError

    sentences = list(_read_sentences(texts, suffixes))
    if len(sentences) != 1:
        raise UserError(f"--show draws one sentence; {len(sentences)} were given")
    return sentences


def _show_alignment(
    task: "Translation",
    source: str,
    target: "Generation",
    arguments: argparse.Namespace,
    style: "PictureStyle",
) -> None:
    import sys

    from workings.interpret.attention import compute_alignment

    alignment = compute_alignment(
        task,
        source,
        target,
        layers=arguments.layer,
        heads=arguments.head,
        whole_words=arguments.words,
    )
    write_result(alignment, arguments.format, arguments.out, style)
    if arguments.out is not None:
        sys.stdout.write(to_single_line(target.text) + "\n")


def _read_sentences(texts: list[str], suffixes: Sequence[str]) -> Iterator[str]:
    """Yield the sentences: the arguments themselves, or the lines of files or standard input."""
    import sys

    from workings.data.readers import read_lines
    from workings.errors import UserError
    from workings.io import existing_path

    for text in texts or ["-"]:
        if text == "-":
            yield from (line.rstrip("\r\n") for _, line in read_lines(sys.stdin.buffer))
            continue
        check_not_folder(text, "a text or a file")
        if (path := existing_path(text)) and not path.is_dir():
            yield from (line.rstrip("\r\n") for _, line in read_lines(text))
        elif _is_probably_filename(text, suffixes):
            raise UserError(f"{text}: no such file (if it is a sentence, pass it through -)")
        else:
            yield text


def _is_probably_filename(text: str, suffixes: Sequence[str]) -> bool:
    """Return True if a text looks like the name of a file.

    >>> [_is_probably_filename(t, ("de",)) for t in ("test.de.gz", "TEST.DE", "Node.js", "Danke.")]
    [True, True, False, False]
    """
    import os.path

    name = text.lower().removesuffix(".gz")
    has_suffix = any(name.endswith(f".{suffix.lower()}") for suffix in suffixes)
    is_in_folder = "/" in text and os.path.isdir(os.path.dirname(text))  # noqa: PTH112, PTH120 - any length
    return " " not in text and (has_suffix or is_in_folder)
