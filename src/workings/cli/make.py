"""Make a problem sheet with its key: problem files, HTML, LaTeX, a notebook, a Moodle quiz.

The numbers are pleasant to work by hand, the same seed gives the same sheet, and the usual mistakes
lead to different numbers, so that a wrong answer tells what went wrong.
"""

import argparse

HELP = "make a problem sheet with its key"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument(
        "--kind",
        required=True,
        metavar="KIND",
        help="self, masked, cross, multi-head (attention), block, additive, positions, layer_norm,"
        " feed_forward, rnn or lstm",
    )
    parser.add_argument(
        "--size", required=True, metavar="TOKENSxWIDTH", help="like 3x4: 3 tokens of width 4"
    )
    parser.add_argument("--out", required=True, metavar="FOLDER", help="where the sheet goes")
    parser.add_argument("--count", type=int, default=10, metavar="N", help="problems (default: 10)")
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="another seed, another sheet (default: 1)"
    )
    parser.add_argument(
        "--mistakes", action="store_true", help="plant one mistake a problem: a sheet to find them"
    )
    parser.add_argument("--title", default="", metavar="TEXT", help="default: the kind's name")
    parser.add_argument(
        "--decimals", type=int, default=3, metavar="N", help="decimals to round to (default: 3)"
    )
    parser.add_argument(
        "--vectors",
        default="rows",
        metavar="rows|columns",
        help="is a token a row or a column (default: rows)",
    )
    parser.add_argument(
        "--d-k",
        type=int,
        metavar="N",
        help="width of a query (default: one that tells mistakes of scaling apart)",
    )
    parser.add_argument("--heads", type=int, metavar="N", help="default: 2 for multi-head")
    parser.add_argument(
        "--context", type=int, metavar="N", help="tokens asked in cross-attention (default: as X)"
    )
    parser.add_argument(
        "--hidden-size", type=int, metavar="N", help="hidden units of rnn, lstm, feed_forward, …"
    )
    parser.add_argument(
        "--scale", default="sqrt(d_k)", metavar="sqrt(d_k)|none", help="default: sqrt(d_k)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Make the sheet and say where it is."""
    import sys

    from workings.plain_text import escape_control
    from workings.problems.sheets import make_sheet
    from workings.render.sheets import write_sheet

    sheet = make_sheet(
        arguments.kind,
        arguments.size,
        arguments.count,
        arguments.seed,
        mistakes=arguments.mistakes,
        title=arguments.title,
        decimals=arguments.decimals,
        vectors=arguments.vectors,
        d_k=arguments.d_k,
        heads=arguments.heads,
        context=arguments.context,
        hidden_size=arguments.hidden_size,
        scale=arguments.scale,
    )
    write_sheet(sheet, arguments.out)
    for note in sheet.notes:
        sys.stderr.write(f"workings: note: {escape_control(note)}\n")
    count = len(sheet.exercises)
    told = f"{arguments.out}: {count} problem{'s' if count > 1 else ''}; the answers are in key/"
    sys.stdout.write(escape_control(told) + "\n")
    return 0
