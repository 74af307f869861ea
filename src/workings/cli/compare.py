"""Train several recipes on the same data and compare them with two baselines.

Runs that an earlier comparison has trained in the same folder are reused.
"""

import argparse

from workings.cli import RECIPE_HELP

HELP = "train several recipes and compare them"
CHANGES = True  # --section.key VALUE changes all of them


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("recipes", metavar="RECIPE", nargs="+", help=RECIPE_HELP)
    parser.add_argument(
        "--out", metavar="FOLDER", default="runs/compare", help="default: runs/compare"
    )


def run(arguments: argparse.Namespace) -> int:
    """Train, print the table and the paths of the figures."""
    import sys
    from pathlib import Path

    from workings.io import write_text
    from workings.render.comparison import curves_chart, render_runs_page, render_runs_text
    from workings.training.compare import compare_recipes

    def log(text: str) -> None:
        sys.stderr.write(f"{text}\n")

    out = Path(arguments.out)
    comparison = compare_recipes(
        arguments.recipes, arguments.changes, out, threads=arguments.threads, log=log
    )
    chart = curves_chart(comparison)
    for name in ("curves.svg", "curves.png"):
        chart.save(out / name)
    write_text(out / "compare.html", render_runs_page(comparison))
    sys.stdout.write(
        f"{render_runs_text(comparison)}\n{out / 'compare.html'}, curves.svg, curves.png\n"
    )
    return 0
