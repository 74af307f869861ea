"""Writes the tables of results in the pages from results/*.json.

`python docs/results.py --write`; without it, says whether they are true. So that no figure is ever
copied by hand. A table NAME stands between `<!-- NAME: begin -->` and `<!-- NAME: end -->`.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from workings.storage import read_json

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"


def classifiers() -> str:
    """A line for each trained classifier, the best first."""
    found = [(path.stem, read_json(path)) for path in RESULTS.glob("imdb-*.json")]
    rows = []
    for name, result in sorted(found, key=lambda item: (-item[1]["test_accuracy"], item[0])):
        without = result.get("test_accuracy_without_overlap")
        rows.append(
            (
                f"[{name}](recipes/{name}.toml)",
                f"{result['parameters']:,}",
                str(len(result["curves"])),
                f"{result['minutes']:.1f} ({result['threads']})",
                f"**{100 * result['test_accuracy']:.2f} %**",
                "–" if without is None else f"{100 * without:.2f} %",
            )
        )
    head = ("recipe", "parameters", "epochs", "minutes (threads)", "test accuracy")
    return _table((*head, "without shared"), rows)


def language() -> str:
    """A line for each trained language model, by text and by what it came to."""
    pattern = re.compile("shakespeare|python|war-and-peace|linux-kernel")
    found = [(p.stem, read_json(p)) for p in RESULTS.glob("*.json") if pattern.match(p.stem)]
    found = [(name, result) for name, result in found if "validation_loss" in result]
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
        for name, result in sorted(found, key=lambda item: (_text(item), -_loss(item)))
    ]
    head = ("recipe", "parameters", "minutes (threads)", "nats", "bits/character")
    return _table((*head, "perplexity", "nats, sliding"), rows)


def _text(item: tuple[str, dict[str, Any]]) -> str:
    return str(item[1]["recipe"]["data"]["set"])


def _loss(item: tuple[str, dict[str, Any]]) -> float:
    return float(item[1]["validation_loss"])


def cells() -> str:
    """The best cell for each property, of each text that cells were looked for in."""
    rows = []
    for path in sorted(RESULTS.glob("cells-*.json")):
        found = json.loads(path.read_text())
        for one in found["properties"]:
            best = one["neurons"][0]
            rows.append(
                (
                    path.stem.removeprefix("cells-"),
                    one["description"],
                    f"{found['num_neurons']:,}",
                    f"{found['num_scoring_tokens']:,}",
                    f"{one['metric']} **{best['score']:.3f}**",
                    f"{one['chance_level']:.2f}",
                )
            )
    head = ("text", "property", "cells tried", "characters scored on", "score", "by chance below")
    return _table(head, rows, left=2)


def speed() -> str:
    """How fast language models are, beside other people's."""
    found = json.loads((RESULTS / "language.json").read_text())
    rows = []
    for row in found["train"]["rows"]:
        shares = f"{row['× Hugging Face']:.2f}", f"{row['× x-transformers']:.2f}"
        rows.append((f"training step, {row['shape']}", f"{row['workings ms']:,.1f} ms", *shares))
    times = {row["who"]: row for row in found["generate"]["rows"]}
    for who in ("workings", "workings, CTranslate2"):
        row = times[who]
        other = times["x-transformers"]["ms"] / row["ms"]
        what = "256 tokens" + (", by CTranslate2" if who != "workings" else "")
        rows.append((what, f"{row['ms']:,.1f} ms", f"{row['× Hugging Face']:.2f}", f"{other:.2f}"))
    head = ("what", "workings", "× as fast as Hugging Face", "× as fast as x-transformers")
    return _table(head, rows)


def translators() -> str:
    """A line for each translator: of several seeds the mean BLEU, and the first one's the rest.

    A run that went on for more epochs (NAME.longer.json) has a line of its own.
    """
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for path in sorted(filter(_is_translator, RESULTS.glob("*.json"))):
        result = read_json(path)
        key = path.name.partition(".")[0], len(result["curves"])
        found.setdefault(key, []).append(result)
    rows = []
    by_score = sorted(found.items(), key=lambda item: (_way(item[1][0]), _bleu(item[1])))
    for (name, epochs), results in by_score:
        first = results[0]
        tokenised = first.get("test_tokenized_bleu")
        several = f" ({min(_bleus(results)):.1f} to {max(_bleus(results)):.1f})"
        rows.append(
            (
                f"[{name}](recipes/{name}.toml)",
                _way(first),
                f"{first['parameters']:,}",
                f"{epochs}",
                f"{first['minutes']:.1f} ({first['threads']})",
                f"{len(results)}",
                f"**{_bleu(results):.2f}**{several if len(results) > 1 else ''}",
                "–" if tokenised is None else f"{tokenised:.2f}",
                f"{first['test_chrf']:.2f}",
            )
        )
    head = ("recipe", "direction", "parameters", "epochs", "minutes (threads)", "seeds")
    return _table((*head, "BLEU", "tokenised BLEU", "chrF"), rows, left=2)


def _bleus(results: list[dict[str, Any]]) -> list[float]:
    return [result["test_bleu"] for result in results]


def _bleu(results: list[dict[str, Any]]) -> float:
    return sum(_bleus(results)) / len(results)


def _is_translator(path: Path) -> bool:
    return path.stem.startswith(("multi30k", "eng-fra", "emoji-french"))


def _way(result: dict[str, Any]) -> str:
    data = result["recipe"]["data"]
    return f"{data['source']} → {data['target']}"


def captioners() -> str:
    """A line for each trained captioner."""
    found = [(p.stem, read_json(p)) for p in RESULTS.glob("*.json") if _is_captioner(p)]
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
        for name, result in sorted(found)
    ]
    head = ("recipe", "parameters", "epochs", "minutes (threads)")
    return _table((*head, "BLEU-1", "BLEU-4", "CIDEr-D", "ROUGE-L", "exact, %", "looked, %"), rows)


def _is_captioner(path: Path) -> bool:
    return path.stem.startswith(("scenes", "flickr8k"))


def crews() -> str:
    """Weak and strong scaling."""
    rows = [
        (
            row["scaling"],
            row["parallelism"],
            str(row["processes"]),
            str(row["batch"]),
            f"{row['ms a step']:,.0f}",
            f"{row['examples/s']:.1f}",
            f"**{row['× one']:.2f}**",
        )
        for row in json.loads((RESULTS / "distributed.json").read_text())["rows"]
    ]
    head = ("scaling", "crew", "processes", "batch", "ms a step", "examples/s")
    return _table((*head, "× one process"), rows, left=2)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    line = "|---" * left + "|---:" * (len(head) - left) + "|"
    lines = (f"| {' | '.join(row)} |" for row in (head, *rows))
    return "\n".join((next(lines), line, *lines)) + "\n"


TABLES: dict[str, tuple[Callable[[], str], tuple[str, ...]]] = {
    "classifiers": (classifiers, ("docs/classifiers.md", "docs/recipes.md")),
    "language": (language, ("docs/language.md", "docs/recipes.md")),
    "cells": (cells, ("docs/cells.md",)),
    "speed": (speed, ("docs/language.md",)),
    "translators": (translators, ("docs/translate.md", "docs/recipes.md")),
    "captioners": (captioners, ("docs/caption.md", "docs/recipes.md")),
    "crews": (crews, ("docs/cluster.md",)),
}


def renewed() -> Iterator[tuple[Path, str]]:
    """Every page that is not as it should be, with what it should be."""
    for name, (make, pages) in TABLES.items():
        for page in pages:
            path = ROOT / page
            text, inside = path.read_text(encoding="utf-8"), make()
            if path.parent != ROOT:
                inside = inside.replace("](recipes/", "](../recipes/")
            begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
            pattern = re.escape(begin) + ".*?" + re.escape(end)
            new, count = re.subn(pattern, lambda _: begin + inside + end, text, flags=re.DOTALL)  # noqa: B023
            if not count:
                raise SystemExit(f"{page}: there is no place for the table {name}")
            if new != text:
                yield path, new


def main() -> int:
    """Write the pages, or compare."""
    stale = []
    for path, new in renewed():
        stale.append(path.name)
        if "--write" in sys.argv:
            path.write_text(new, encoding="utf-8")
    if stale and "--write" not in sys.argv:
        sys.stderr.write(f"not up to date: {', '.join(stale)}: python docs/results.py --write\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
