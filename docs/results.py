"""Write the tables on the pages and of `workings recipes` from results/*.json.

python docs/results.py             check that they are up to date
python docs/results.py --write     update them

The table NAME of a page is between `<!-- NAME: begin -->` and `<!-- NAME: end -->`.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import scale
from workings.builtin import builtin_recipes
from workings.recipes.catalog import RESULTS_FILE
from workings.storage import read_json

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"


def classifiers() -> str:
    """Return one row per trained classifier, best first."""
    paths = [path for path in RESULTS.glob("imdb-*.json") if ".seed-" not in path.name]
    results = [(path.stem, read_json(path)) for path in paths]
    rows = []
    for name, result in sorted(results, key=lambda item: (-item[1]["test_accuracy"], item[0])):
        without_overlap = result.get("test_accuracy_without_overlap")
        rows.append(
            (
                " + ".join(f"[{part}](recipes/{part}.toml)" for part in name.split("+")),
                f"{result['parameters']:,}",
                "–" if "classifiers" in result else str(len(result["curves"])),
                f"{_minutes(result):.1f} ({result['threads']})",
                _describe_accuracy(name, result["test_accuracy"]),
                "–" if without_overlap is None else f"{100 * without_overlap:.2f} %",
            )
        )
    head = ("recipe", "parameters", "epochs", "minutes (threads)", "test accuracy")
    return _table((*head, "without overlap"), rows)


def _describe_accuracy(name: str, accuracy: float) -> str:
    """Return the accuracy of a recipe; of several seeds the mean, with the range."""
    others = [read_json(path)["test_accuracy"] for path in RESULTS.glob(f"{name}.seed-*.json")]
    values = [100 * value for value in (accuracy, *others)]
    if not others:
        return f"**{values[0]:.2f} %**"
    seeds = f"{len(values)} seeds: {min(values):.2f} to {max(values):.2f}"
    return f"**{sum(values) / len(values):.2f} %** ({seeds})"


def language() -> str:
    """Return one row per trained language model, by data set and then by falling loss."""
    pattern = re.compile("shakespeare|python|war-and-peace|linux-kernel")
    results = [(p.stem, read_json(p)) for p in RESULTS.glob("*.json") if pattern.match(p.stem)]
    results = [(name, result) for name, result in results if "validation_loss" in result]
    rows = [
        (
            f"[{name}](recipes/{name}.toml)",
            f"{result['parameters']:,}",
            f"{result['minutes']:.1f} ({result['threads']})",
            f"**{result['validation_loss']:.3f}**",
            f"{result['validation_bits_per_character']:.3f}",
            f"{result['validation_perplexity']:.2f}",
            f"{result['sliding_loss']:.3f}",
        )
        for name, result in sorted(results, key=lambda item: (_dataset(item), -_loss(item)))
    ]
    head = ("recipe", "parameters", "minutes (threads)", "nats/token", "bits/character")
    return _table((*head, "perplexity", "nats/token, sliding"), rows)


def _dataset(item: tuple[str, dict[str, Any]]) -> str:
    return str(item[1]["recipe"]["data"]["set"])


def _loss(item: tuple[str, dict[str, Any]]) -> float:
    return float(item[1]["validation_loss"])


def cells() -> str:
    """Return the best cell for each property of each text."""
    rows = []
    for path in sorted(RESULTS.glob("cells-*.json")):
        search = json.loads(path.read_text())
        for scored in search["properties"]:
            best = scored["neurons"][0]
            rows.append(
                (
                    path.stem.removeprefix("cells-"),
                    scored["description"],
                    f"{search['num_neurons']:,}",
                    f"{search['num_scoring_tokens']:,}",
                    f"{scored['metric']} **{best['score']:.3f}**",
                    f"{scored['chance_level']:.2f}",
                )
            )
    head = ("text", "property", "cells tried", "characters scored on", "score", "chance level")
    return _table(head, rows, left=2)


def speed() -> str:
    """Return the speed of our language models relative to other libraries."""
    measured = json.loads((RESULTS / "language.json").read_text())
    rows = []
    for row in measured["train"]["rows"]:
        ratios = (_ratio(row.get(f"× {who}")) for who in ("Hugging Face", "x-transformers"))
        size = {"middle": "medium"}.get(row["shape"], row["shape"])
        rows.append((f"training step, {size}", f"{row['workings ms']:,.1f} ms", *ratios))
    times = {row["who"]: row for row in measured["generate"]["rows"]}
    for library in ("workings", "workings, CTranslate2"):
        row, peer = times[library], times.get("x-transformers")  # it may not be installed
        ratio = peer and peer["ms"] / row["ms"]
        work = "256 tokens" + (" with CTranslate2" if library != "workings" else "")
        rows.append(
            (work, f"{row['ms']:,.1f} ms", _ratio(row.get("× Hugging Face")), _ratio(ratio))
        )
    head = ("measured", "workings", "× as fast as Hugging Face", "× as fast as x-transformers")
    return _table(head, rows)


def _minutes(result: dict[str, Any]) -> float:
    """Return the minutes of a training: of the processor, if it has recorded them."""
    return float(result.get("cpu_minutes", result["minutes"]))


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def gpt2() -> str:
    """Return the speed of a model of GPT-2 small's size relative to transformers."""
    measured = json.loads((RESULTS / "gpt2.json").read_text())
    parts = {
        "load": "load the folder, one token",
        "prefill": "512 tokens",
        "generate": "generate 40 tokens",
    }
    rows = []
    for part, title in parts.items():
        ours, theirs = measured[part]["rows"]
        times = [f"{row['ms'] / 1000:.2f} s" for row in (ours, theirs)]
        rows.append((title, *times, f"{ours['× transformers']:.2f}"))
    return _table(("measured", "workings", "transformers", "× as fast"), rows)


def translators() -> str:
    """Return one row per translator: BLEU is the mean over seeds, the rest is the first seed's.

    A run that was extended by more epochs (NAME.longer.json) has its own row.
    """
    by_run: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for path in sorted(filter(_is_translator, RESULTS.glob("*.json"))):
        result = read_json(path)
        key = path.name.partition(".")[0], len(result["curves"])
        by_run.setdefault(key, []).append(result)
    rows = []
    by_score = sorted(by_run.items(), key=lambda item: (_direction(item[1][0]), _bleu(item[1])))
    for (name, epochs), results in by_score:
        first = results[0]
        tokenized = first.get("test_tokenized_bleu")
        bleu_range = f" ({min(_bleus(results)):.1f} to {max(_bleus(results)):.1f})"
        rows.append(
            (
                f"[{name}](recipes/{name}.toml)",
                _direction(first),
                f"{first['parameters']:,}",
                f"{epochs}",
                f"{first['minutes']:.1f} ({first['threads']})",
                f"{len(results)}",
                f"**{_bleu(results):.2f}**{bleu_range if len(results) > 1 else ''}",
                "–" if tokenized is None else f"{tokenized:.2f}",
                f"{first['test_chrf']:.2f}",
            )
        )
    head = ("recipe", "direction", "parameters", "epochs", "minutes (threads)", "seeds")
    return _table((*head, "BLEU", "tokenized BLEU", "chrF"), rows, left=2)


def _bleus(results: list[dict[str, Any]]) -> list[float]:
    return [result["test_bleu"] for result in results]


def _bleu(results: list[dict[str, Any]]) -> float:
    return sum(_bleus(results)) / len(results)


def _is_translator(path: Path) -> bool:
    return path.stem.startswith(("multi30k", "eng-fra", "emoji-french"))


def _direction(result: dict[str, Any]) -> str:
    data = result["recipe"]["data"]
    return f"{data['source']} → {data['target']}"


def captioners() -> str:
    """Return one row per trained captioner."""
    results = [(p.stem, read_json(p)) for p in RESULTS.glob("*.json") if _is_captioner(p)]
    rows = [
        (
            f"[{name.partition('.')[0]}](recipes/{name.partition('.')[0]}.toml)",
            f"{result['parameters']:,}",
            f"{len(result['curves'])}",
            f"{result['minutes']:.1f} ({result['threads']})",
            *(f"{result[key]:.1f}" for key in ("test_bleu_1", "test_bleu_4")),
            f"**{result['test_cider']:.1f}**",
            *(f"{result[key]:.1f}" for key in ("test_rouge", "test_exact")),
            f"{result['test_attended_shapes']:.1f}" if "test_attended_shapes" in result else "–",
        )
        for name, result in sorted(results)
    ]
    head = ("recipe", "parameters", "epochs", "minutes (threads)")
    return _table(
        (*head, "BLEU-1", "BLEU-4", "CIDEr-D", "ROUGE-L", "exact, %", "attended, %"), rows
    )


def _is_captioner(path: Path) -> bool:
    return path.stem.startswith(("scenes", "flickr8k"))


def distributed() -> str:
    """Return weak and strong scaling over processes."""
    rows = [
        (
            row["scaling"],
            {"independent": "no communication"}.get(row["parallelism"], row["parallelism"]),
            str(row["processes"]),
            str(row["batch"]),
            f"{row['ms a step']:,.0f}",
            f"{row['examples/s']:.1f}",
            f"**{row['× one']:.2f}**",
        )
        for row in json.loads((RESULTS / "distributed.json").read_text())["rows"]
    ]
    head = ("scaling", "parallelism", "processes", "batch", "ms per step", "examples/s")
    return _table((*head, "× one process"), rows, left=2)


def checker() -> str:
    """Return how often the checker is right, by what was written on the sheet."""
    result = json.loads((RESULTS / "check.json").read_text())
    honest, slips, mistakes, nameless, with_slip, pairs = (
        {row["name"]: row for row in result[section]}
        for section in (
            *("honest", "slips", "mistakes"),
            *("uncatalogued", "mistake_and_slip", "two_mistakes"),
        )
    )
    total = slips["all"]
    rows = [
        (
            f"correct solutions, in {len(honest) - 1} styles of rounding",
            f"{honest['all']['planted']:,}",
            "called wrong or refused",
            f"**{honest['all']['wrong']:,}**",
        ),
        _share("slips that rounding cannot explain", "found", total, total["wrong"]),
        _share("", "first wrong cell", total, total["found"]),
        _share(
            f"mistakes of the catalogue, {len(mistakes) - 1} names",
            *("named", mistakes["all"], mistakes["all"]["named"]),
        ),
        _share("wrong formulas without a name", "given one", nameless["all"]),
        _share("a mistake and a slip in one step", "mistake named", with_slip["all"]),
        _share("two mistakes in one step", "both named", pairs["all"]),
        *_checker_by_kind(result),
        (f"{result['files']:,} files in one call", "", "seconds", f"**{result['files_seconds']}**"),
        ("one file", "", "seconds", f"**{result['file_seconds']:.2f}**"),
    ]
    return _table(("on the sheet", "sheets", "measured", "result"), rows)


def _checker_by_kind(result: dict[str, Any]) -> Iterator[Sequence[str]]:
    """Yield the rows of the kinds that have a section of their own, as far as it was measured."""
    for section, sheets, measured in (
        ("honest_by_kind", "correct solutions", "called wrong or refused"),
        ("slips_by_kind", "slips", "first wrong cell"),
        ("mistakes_by_kind", "mistakes", "named"),
    ):
        *rows, total = result.get(section, [None])
        what = f"{sheets} in {len(rows)} further kinds and forms"
        if section == "honest_by_kind" and rows:
            yield what, f"{total['planted']:,}", measured, f"**{total['wrong']:,}**"
        elif rows:
            share = total["found" if section == "slips_by_kind" else "named"]
            yield _share(what, measured, total, share)


def _share(
    what: str, measured: str, row: dict[str, Any], count: int | None = None
) -> Sequence[str]:
    count = row["named"] if count is None else count
    return what, f"{row['planted']:,}", measured, f"**{100 * count / row['planted']:.2f} %**"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    line = "|---" * left + "|---:" * (len(head) - left) + "|"
    lines = (f"| {' | '.join(row)} |" for row in (head, *rows))
    return "\n".join((next(lines), line, *lines)) + "\n"


def catalog() -> str:
    """Return minutes and result of each recipe as JSON, for `workings recipes`."""
    results = {}
    for name in builtin_recipes():
        paths = [RESULTS / f"{name}.json", *sorted(RESULTS.glob(f"{name}.seed-*.json"))]
        if paths[0].is_file():
            trained = [read_json(path) for path in paths]
            minutes = round(_minutes(trained[0]), 1)
            results[name] = {"minutes": minutes, "result": _describe_result(trained)}
    return json.dumps(results, indent=1) + "\n"


def _describe_result(results: list[dict[str, Any]]) -> str:
    """Return the metric of a task, and its mean over the seeds."""
    first = results[0]
    if "test_bleu" in first:
        seeds = f" ({len(results)} seeds)" if len(results) > 1 else ""
        return f"{_bleu(results):.2f} BLEU{seeds}"
    if "test_accuracy" in first:
        return f"{100 * first['test_accuracy']:.2f} % accuracy"
    if "test_cider" in first:
        return f"{first['test_cider']:.1f} CIDEr-D"
    return f"{first['validation_bits_per_character']:.3f} bits per character"


def scale_table() -> str:
    """Return what a first step needs, by kind and size of the data."""
    head = ("data", "MB", "CPU seconds", "CPU seconds, cached", "peak, MiB")
    return _table(head, scale.list_rows())


TABLES: dict[str, tuple[Callable[[], str], tuple[str, ...]]] = {
    "classifiers": (classifiers, ("docs/classifiers.md", "docs/recipes.md")),
    "language": (language, ("docs/language.md", "docs/recipes.md")),
    "cells": (cells, ("docs/cells.md",)),
    "speed": (speed, ("docs/language.md",)),
    "gpt2": (gpt2, ("docs/gpt2.md",)),
    "translators": (translators, ("docs/translate.md", "docs/recipes.md")),
    "captioners": (captioners, ("docs/caption.md", "docs/recipes.md")),
    "distributed": (distributed, ("docs/cluster.md",)),
    "checker": (checker, ("docs/problem-format.md",)),
    "scale": (scale_table, ("docs/scale.md",)),
}


def find_stale_files() -> Iterator[tuple[Path, str]]:
    """Yield every file whose tables or curves are out of date, with its new text."""
    for name, svg in scale.draw_curves().items():
        path = ROOT / "docs" / name
        if not path.exists() or path.read_text(encoding="utf-8") != svg:
            yield path, svg
    if RESULTS_FILE.read_text(encoding="utf-8") != catalog():
        yield RESULTS_FILE, catalog()
    for name, (make, pages) in TABLES.items():
        for page in pages:
            path = ROOT / page
            text, table = path.read_text(encoding="utf-8"), make()
            if path.parent != ROOT:
                table = table.replace("](recipes/", "](../recipes/")
            begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
            pattern = re.escape(begin) + ".*?" + re.escape(end)
            new, count = re.subn(pattern, lambda _: begin + table + end, text, flags=re.DOTALL)  # noqa: B023
            if not count:
                raise SystemExit(f"{page}: no markers for the table {name}")
            if new != text:
                yield path, new


def main() -> int:
    """Update the files, or report those that are out of date."""
    stale = []
    for path, new in find_stale_files():
        stale.append(path.name)
        if "--write" in sys.argv:
            path.write_text(new, encoding="utf-8")
    if stale and "--write" not in sys.argv:
        sys.stderr.write(f"out of date: {', '.join(stale)}: run python docs/results.py --write\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
