"""Train several recipes on the same data and put them side by side, with two baselines.

What an earlier comparison in the same folder has trained already is not trained again.
"""

import argparse

HELP = "train several recipes and put them side by side"
CHANGES = True  # --section.key VALUE changes all of them


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("recipes", metavar="RECIPE", nargs="+", help="recipes (TOML)")
    parser.add_argument(
        "--out", metavar="FOLDER", default="runs/compare", help="default: runs/compare"
    )


def run(arguments: argparse.Namespace) -> int:
    """Compare, print the table, and say where the pictures are."""
    import sys
    from pathlib import Path

    from workings.io import write_text
    from workings.render.comparison import curves_chart, render_runs_page, render_runs_text
    from workings.training.compare import compare_recipes

    def say(text: str) -> None:
        sys.stderr.write(f"{text}\n")

    out = Path(arguments.out)
    compared = compare_recipes(
        arguments.recipes, arguments.changes, out, threads=arguments.threads, log=say
    )
    chart = curves_chart(compared)
    for name in ("curves.svg", "curves.png"):
        chart.save(out / name)
    write_text(out / "compare.html", render_runs_page(compared))
    sys.stdout.write(
        f"{render_runs_text(compared)}\n{out / 'compare.html'}, curves.svg, curves.png\n"
    )
    return 0
