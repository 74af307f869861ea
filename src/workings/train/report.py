"""What a run leaves behind for people: report.html, and its curves as pictures."""

import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from workings.config import to_table, to_toml
from workings.lens.explain import explain
from workings.lens.explanation import Explanation
from workings.models.summary import summarise
from workings.recipes import ClassifyRecipe
from workings.storage import read_json, write_text
from workings.tasks.classify import Classifying
from workings.train.log import read_log
from workings.views.explained_html import glance
from workings.views.page import harmless
from workings.views.report import Report, confusion_html, curve_chart, measures, report_page

WORST = 8  # mistakes that are shown
LONGEST = 1500  # characters of a text that are shown


def write_report(folder: Path, task: Classifying) -> None:
    """Write report.html, curves.svg and curves.png for a run that has its result."""
    records = read_log(folder / "log.jsonl")
    curves = [r for r in records if r["kind"] == "epoch"]
    result, recipe = read_json(folder / "result.json"), task.recipe
    part = "test" if task.examples.get("test") else "validation"
    report = Report(
        title=recipe.title or recipe.model["kind"],
        lead=_lead(recipe, task, result),
        figures=_figures(result),
        curves=curves,
        sections=_mistakes(task, part) if task.examples.get(part) else (),
        layers=summarise(task.model, task.model.fixed_length or recipe.data.longest),
        recipe=to_toml(to_table(recipe)),
        commands=(
            f"workings train {folder.name}/config.toml --out again   # the recipe below",
            f"workings evaluate {folder.name}",
        ),
        environment=_flat(read_json(folder / "environment.json")),
    )
    write_text(folder / "report.html", report_page(report))
    chart = curve_chart(curves, measures(curves)[0])
    chart.save(folder / "curves.svg")
    with suppress(ModuleNotFoundError):  # the extra `pictures` is for those who want it
        chart.save(folder / "curves.png")


def _lead(recipe: ClassifyRecipe, task: Classifying, result: dict[str, Any]) -> str:
    kind = recipe.model["kind"]
    return (
        f"{result['parameters']:,} parameters ({kind}), trained from scratch on "
        f"{len(task.examples.get('train', ())):,} examples of {recipe.data.set} in "
        f"{result['minutes']:.1f} minutes on {_count(result['threads'], 'thread')}; "
        f"{_count(len(task.labels), 'class', 'classes')}; seed {recipe.seed}."
    )


def _count(n: int, one: str, many: str = "") -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def _figures(result: dict[str, Any]) -> list[tuple[str, str]]:
    shown = []
    for key, value in result.items():
        if key.startswith(("test_", "validation_")) or key == "best_epoch":
            name = key.replace("_", " ")
            share = "accuracy" in key
            number = f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
            shown.append((name, f"{100 * value:.2f} %" if share else number))
    return shown


def _mistakes(task: Classifying, part: str) -> list[tuple[str, str]]:
    """The confusion matrix, and the mistakes that the model was surest of, explained."""
    scores, targets = task.scores(part, task.alone)
    found = scores.argmax(-1)
    classes = len(task.labels)
    counts = torch.bincount(targets * classes + found, minlength=classes * classes)
    matrix = counts.view(classes, classes).tolist()
    sections = [(f"Confusion matrix ({part})", confusion_html(task.labels, matrix))]
    sure = torch.softmax(scores, -1).max(-1).values.masked_fill(found == targets, -1.0)
    worst = [int(i) for i in sure.topk(min(WORST, len(sure))).indices if sure[i] >= 0]
    if worst:
        shown = "\n".join(_mistake(task, part, i, task.labels[int(targets[i])]) for i in worst)
        sections.append((f"Surest mistakes ({part})", shown))
    return sections


def _mistake(task: Classifying, part: str, index: int, truth: str) -> str:
    how = "attention" if task.recipe.model.get("kind") == "transformer" else "occlusion"
    explanation = explain(task, task.examples[part][index].text, methods=[how])
    return (
        f'<div class="wrong-one"><p>true: <b dir="auto">{harmless(truth)}</b></p>'
        f"{glance(_shortened(explanation))}</div>"
    )


def _shortened(told: Explanation) -> Explanation:
    """Show the beginning of a long text, explained as the whole was."""
    spans = [span for span in told.spans if span[1] <= LONGEST]
    return replace(
        told,
        text=told.text if len(told.text) <= LONGEST else f"{told.text[:LONGEST]}…",
        spans=spans,
        unknown=[k for k in told.unknown if k < len(spans)],
        shares=[replace(s, values=s.values[: len(spans)]) for s in told.shares],
    )


def _flat(table: dict[str, Any]) -> dict[str, str]:
    packages = table.pop("packages", {})
    command = " ".join(table.pop("command", sys.argv))
    facts = {k: str(v) for k, v in table.items() if k not in ("format", "files")}
    return facts | {k: str(v) for k, v in packages.items()} | {"command": command}
