"""Make a problem sheet with its answer key: problem files, HTML, LaTeX, a notebook, a Moodle quiz.

The numbers are easy to compute by hand, and the same seed gives the same sheet. Each common mistake
gives different numbers, so that a wrong answer identifies its mistake.
"""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from workings.problems.sheets import Sheet

HELP = "make a problem sheet with its answer key"
# The registry of sheets needs numpy, which --help does not import.
_KINDS = {
    "attention": "self, masked, cross, multi-head, exponentials, rope, grouped, additive, block,"
    " decoder_block",
    "layers": "positions, layer_norm, feed_forward, rms_norm",
    "convolution": "conv1d, batch_norm",
    "counting": "layers, cost, kv_cache",
    "decoding": "sampling, sentence, beam_search",
    "scores of texts": "bleu, rouge_l, edit_distance",
    "language models": "embedding, softmax, lm_head",
    "recurrent networks": "rnn, rnn_output, lstm, gru, bidirectional_rnn, bidirectional_lstm,"
    " bidirectional_gru, encoder_decoder, encoder_decoder_attention",
    "losses and gradients": "cross_entropy, label_smoothing, softmax_jacobian, linear_gradient,"
    " mlp_gradient, layer_norm_gradient, attention_gradient, rnn_gradient, rnn_jacobian,"
    " lstm_gradient, momentum_step, adam_step",
}
# The options of `SheetKind`s; each kind says which it accepts.
_SIZE_OPTIONS = {
    "d_k": "width of a query (default: one that makes scaling mistakes visible)",
    "heads": "attention heads (default: 2 for multi-head)",
    "context": "context tokens of cross-attention (default: as many as there are queries)",
    "hidden_size": "hidden units of rnn, lstm, feed_forward, …",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--kind",
        required=True,
        metavar="KIND",
        help="kind of problem, one of those listed below; self,lstm: several take turns",
    )
    parser.add_argument(
        "--size",
        metavar="TOKENSxWIDTH",
        help="like 3x4: 3 tokens of width 4 (default: one that suits the kind and the level)",
    )
    parser.add_argument(
        "--level",
        type=int,
        default=2,
        metavar="N",
        help="1: small, 2: medium, 3: large and without formulas (default: 2)",
    )
    parser.add_argument("--out", required=True, metavar="FOLDER", help="folder for the sheet")
    parser.add_argument(
        "--count", type=int, default=10, metavar="N", help="number of problems (default: 10)"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="random seed (default: 1)")
    parser.add_argument(
        "--students",
        metavar="FILE",
        help="a sheet for each student of a list (CSV with id and name), with one key for all",
    )
    parser.add_argument(
        "--variants", type=int, metavar="N", help="N different sheets, as for a list of N students"
    )
    parser.add_argument(
        "--mistakes",
        action="store_true",
        help="plant one mistake per problem, for students to find",
    )
    parser.add_argument(
        "--steps",
        metavar="STEP,STEP",
        help="steps that are asked, like weights,mixed (default: all); the key has every step",
    )
    parser.add_argument(
        "--points",
        metavar="STEP=N,…",
        help="points of each step, like weights=2,mixed=3; one number: of every step (default: 1)",
    )
    parser.add_argument(
        "--hide-formulas",
        action="store_true",
        help="print only the names of steps, so that students must know the formulas",
    )
    parser.add_argument(
        "--title", default="", metavar="TEXT", help="title of the sheet (default: the kind)"
    )
    parser.add_argument(
        "--decimals", type=int, default=3, metavar="N", help="decimals to round to (default: 3)"
    )
    parser.add_argument(
        "--vectors",
        default="rows",
        metavar="rows|columns",
        help="whether tokens are rows or columns (default: rows)",
    )
    parser.add_argument(
        "--language",
        default="en",
        metavar="CODE",
        help="language of the sheet: en, de, fr, vi or zh (default: en)",
    )
    for name, text in _SIZE_OPTIONS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, metavar="N", help=text)
    parser.add_argument(
        "--scale",
        default="sqrt(d_k)",
        metavar="sqrt(d_k)|none",
        help="divisor of the scores (default: sqrt(d_k))",
    )
    parser.epilog = "kinds of problem: " + "; ".join(
        f"{family}: {kinds}" for family, kinds in _KINDS.items()
    )


def run(arguments: argparse.Namespace) -> int:
    """Make the sheet and print its folder."""
    import sys
    from functools import partial

    from workings.plain_text import escape_control
    from workings.problems.sheets import make_sheet
    from workings.render.sheets import write_sheet

    make = partial(
        make_sheet,
        arguments.kind,
        arguments.size,
        arguments.count,
        mistakes=arguments.mistakes,
        title=arguments.title,
        steps=arguments.steps,
        points=arguments.points,
        hide_formulas=arguments.hide_formulas,
        level=arguments.level,
        decimals=arguments.decimals,
        vectors=arguments.vectors,
        scale=arguments.scale,
        **{name: getattr(arguments, name) for name in _SIZE_OPTIONS},
    )
    if arguments.students is not None or arguments.variants is not None:
        return _make_student_sheets(arguments, lambda seed: make(seed=seed))
    sheet = make(seed=arguments.seed)
    write_sheet(sheet, arguments.out)
    for note in sheet.notes:
        sys.stderr.write(f"workings: note: {escape_control(note)}\n")
    count = len(sheet.exercises)
    problems = f"{count} problem{'s' if count > 1 else ''}"
    sys.stdout.write(escape_control(f"{arguments.out}: {problems}; answers in key/") + "\n")
    return 0


def _make_student_sheets(arguments: argparse.Namespace, make: "Callable[[int], Sheet]") -> int:
    """Make a sheet for each student and print the folder."""
    import sys

    from workings.errors import UserError
    from workings.plain_text import escape_control
    from workings.problems.sheets.students import make_variants, read_students
    from workings.render.student_sheets import write_student_sheets

    if arguments.students is not None and arguments.variants is not None:
        raise UserError("--students and --variants exclude each other")
    if arguments.variants is not None and arguments.variants < 1:
        raise UserError(f"--variants {arguments.variants}: it must be at least 1")
    students = (
        make_variants(arguments.variants)
        if arguments.students is None
        else read_students(arguments.students)
    )
    write_student_sheets(make, students, arguments.out, arguments.seed)
    text = f"{arguments.out}: {len(students)} sheets in students/; answers in key/"
    sys.stdout.write(escape_control(text) + "\n")
    return 0
