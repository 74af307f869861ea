"""What a run leaves behind for people: report.html, and its curves as pictures."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from workings.config import to_table, to_toml
from workings.models.summary import summarise
from workings.storage import read_json, write_text
from workings.tasks.caption import Captioning
from workings.tasks.classify import Classifying
from workings.tasks.task import Task
from workings.train.described import described
from workings.train.log import read_log
from workings.train.mistakes import mistakes
from workings.views.report import Report, curve_chart, measures, report_page, samples_html

SCORES = {
    **{f"test_bleu_{n}": f"BLEU-{n}" for n in range(1, 5)},
    "test_cider": "CIDEr-D",
    "test_rouge": "ROUGE-L",
    "test_exact": "word for word, %",
    "test_looked_at": "shapes looked at, %",
    "test_bleu": "BLEU",
    "test_tokenised_bleu": "tokenised BLEU",
    "test_chrf": "chrF",
}
"""What is measured on the test part alone, as papers call it."""
SENTENCE = 20  # tokens, as the layers of what writes sentences are shown with


def write_report(folder: Path, task: Task) -> None:
    """Write report.html, curves.svg and curves.png for a run that has its result."""
    records = read_log(folder / "log.jsonl")
    curves = [r for r in records if r["kind"] == "epoch"]
    result, recipe = read_json(folder / "result.json"), task.recipe
    report = Report(
        title=recipe.title or recipe.model["kind"],
        lead=_lead(task, result),
        figures=figures(result),
        notes=[f"{name}: {word}" for name, word in signatures(result)],
        curves=curves,
        sections=_sections(task, records),
        layers=summarise(task.model, _length(task), pixels=getattr(recipe.data, "pixels", 0)),
        recipe=to_toml(to_table(recipe)),
        commands=(
            f"workings train --repeat {folder} --out again   # the recipe below, on the same data",
            f"workings evaluate {folder}",
        ),
        environment=made_with(read_json(folder / "environment.json")),
    )
    write_text(folder / "report.html", report_page(report))
    chart = curve_chart(curves, measures(curves)[0])
    chart.save(folder / "curves.svg")
    with suppress(ModuleNotFoundError):  # the extra `pictures` is for those who want it
        chart.save(folder / "curves.png")


def _lead(task: Task, result: dict[str, Any]) -> str:
    model, told = task.recipe.model, task.data_told
    began = f"from {model['eye']}'s weights" if model.get("pretrained") else "from scratch"
    return (
        f"{result['parameters']:,} parameters ({model['kind']}), trained {began} on "
        f"{told['train']:,} {task.made_of} of {told['set']} in {result['minutes']:.1f} minutes on "
        f"{_count(result['threads'], 'thread')}; seed {task.recipe.seed}."
    )


def _count(n: int, one: str, many: str = "") -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def figures(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Write what a result says of a model, as it is read by people.

    >>> figures({"best_epoch": 1200, "test_accuracy": 0.875, "test_bleu_4": 21.0})
    [('best epoch', '1,200'), ('test accuracy', '87.50 %'), ('BLEU-4', '21.00')]
    """
    return [
        (SCORES.get(key) or key.replace("_", " "), _figure(key, value))
        for key, value in result.items()
        if key.startswith(("test_", "validation_", "sliding_")) or key == "best_epoch"
    ]


def _figure(key: str, value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if "accuracy" in key:
        return f"{100 * value:.2f} %"
    return f"{value:.2f}" if key in SCORES else f"{value:.4f}"


def signatures(result: dict[str, Any]) -> list[tuple[str, str]]:
    """How scores were measured, in a word that can be held against another."""
    return [(key.replace("_", " "), result[key]) for key in result if key.endswith("signature")]


def _sections(task: Task, records: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """What only this kind of task has to show."""
    if isinstance(task, Classifying):
        part = "test" if task.examples.get("test") else "validation"
        return mistakes(task, part) if task.examples.get(part) else []
    if isinstance(task, Captioning):
        return described(task)
    remarks = [r for r in records if r["kind"] == "remark"]
    samples = [
        (r["epoch"], r["sample"])
        for r in remarks
        if isinstance(r.get("epoch"), int) and isinstance(r.get("sample"), str)
    ]
    return [("Samples", samples_html(samples))] if samples else []


def _length(task: Task) -> int:
    """How long a text is that the layer table is written for."""
    if isinstance(task, Classifying):
        return task.model.fixed_length or int(task.recipe.data.longest)
    return int(getattr(task.recipe.data, "window", SENTENCE))


def made_with(table: dict[str, Any]) -> dict[str, str]:
    """Write what a run was made with as one list."""
    packages, data = table.pop("packages", {}), table.pop("data", {})
    command = " ".join(table.pop("command", sys.argv))
    facts = {k: v for k, v in table.items() if k not in ("format", "files")}
    facts |= {f"data.{k}": v for k, v in data.items()} | packages | {"command": command}
    return {k: str(v) for k, v in facts.items()}
