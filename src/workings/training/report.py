"""How a captioner describes pictures that it has not learned from, for its report."""

import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from workings import render
from workings.config import to_table, to_toml
from workings.interpret.attention_maps import caption_attention
from workings.interpret.attribution import explain
from workings.interpret.results import Attribution
from workings.io import write_text
from workings.models.summary import summarize
from workings.recipes import CaptionerConfig
from workings.render.attribution import render_summary
from workings.render.caption_attention import caption_strip
from workings.render.page import escape_html
from workings.render.training_report import (
    TrainingReport,
    confusion_matrix_html,
    curve_chart,
    measure_names,
    samples_html,
)
from workings.storage import read_json
from workings.tasks.base import Task
from workings.tasks.captioning import Captioning
from workings.tasks.classification import Classification
from workings.training.logging import read_log

NUM_CAPTIONS = 6  # pictures


def build_caption_sections(task: Captioning) -> list[tuple[str, str]]:
    """The first test pictures (or validation's), what is said of them, and what people said."""
    part = "test" if task.pictures["test"] else "validation"
    pictures, pixels = task.pictures[part][:NUM_CAPTIONS], task.pixels[part][:NUM_CAPTIONS]
    shown = []
    for picture, photo, found in zip(pictures, pixels, task.caption(pixels), strict=True):
        told = caption_attention(task, photo, found[0], picture.name)
        expected = "<br>".join(escape_html(text) for text in picture.captions)
        shown.append(
            f'<h3 dir="auto">{escape_html(told.caption)}</h3>\n'
            f'<p class="explanation" dir="auto">What was to be said:<br>{expected}</p>\n{caption_strip(told)}'
        )
    return [(f"Captions ({part})", "\n".join(shown))] if shown else []


NUM_MISTAKES = 8  # mistakes that are shown
MAX_CHARACTERS = 1500  # characters of a text that are shown


def build_mistake_sections(task: Classification, split: str) -> list[tuple[str, str]]:
    """The confusion matrix, and the mistakes that the model was surest of, explained."""
    scores, targets = task.compute_split_logits(split, task.local_group)
    found = scores.argmax(-1)
    classes = len(task.labels)
    counts = torch.bincount(targets * classes + found, minlength=classes * classes)
    matrix = counts.view(classes, classes).tolist()
    sections = [(f"Confusion matrix ({split})", confusion_matrix_html(task.labels, matrix))]
    sure = torch.softmax(scores, -1).max(-1).values.masked_fill(found == targets, -1.0)
    worst = [int(i) for i in sure.topk(min(NUM_MISTAKES, len(sure))).indices if sure[i] >= 0]
    if worst:
        shown = "\n".join(
            _render_mistake(task, split, i, task.labels[int(targets[i])]) for i in worst
        )
        sections.append((f"Surest mistakes ({split})", shown))
    return sections


def _render_mistake(task: Classification, split: str, index: int, truth: str) -> str:
    how = "attention" if task.recipe.model.kind == "transformer" else "occlusion"
    explanation = explain(task, task.examples[split][index].text, methods=[how])
    return (
        f'<div class="mistake"><p>true: <b dir="auto">{escape_html(truth)}</b></p>'
        f"{render_summary(_truncate_explanation(explanation))}</div>"
    )


def _truncate_explanation(explanation: Attribution) -> Attribution:
    """Show the beginning of a long text, explained as the whole was."""
    spans = [span for span in explanation.spans if span[1] <= MAX_CHARACTERS]
    return replace(
        explanation,
        input_text=explanation.input_text
        if len(explanation.input_text) <= MAX_CHARACTERS
        else f"{explanation.input_text[:MAX_CHARACTERS]}…",
        spans=spans,
        unknown_tokens=[k for k in explanation.unknown_tokens if k < len(spans)],
        token_attributions=[
            replace(s, values=s.values[: len(spans)]) for s in explanation.token_attributions
        ],
    )


METRIC_LABELS = {
    **{f"test_bleu_{n}": f"BLEU-{n}" for n in range(1, 5)},
    "test_cider": "CIDEr-D",
    "test_rouge": "ROUGE-L",
    "test_exact": "word for word, %",
    "test_attended_shapes": "shapes attended to, %",
    "test_bleu": "BLEU",
    "test_tokenized_bleu": "tokenized BLEU",
    "test_chrf": "chrF",
}
"""What is measured on the test part alone, as papers call it."""
SUMMARY_SENTENCE_LENGTH = 20  # tokens, as the layers of what writes sentences are shown with


def write_report(folder: Path, task: Task) -> None:
    """Write report.html, curves.svg and curves.png for a run that has its result."""
    records = read_log(folder / "log.jsonl")
    curves = [r for r in records if r["kind"] == "epoch"]
    result, recipe = read_json(folder / "result.json"), task.recipe
    report = TrainingReport(
        title=recipe.title or recipe.model.kind,
        lead=_write_lead(task, result),
        headline_metrics=format_result(result),
        notes=[f"{name}: {word}" for name, word in list_signatures(result)],
        curves=curves,
        sections=_build_sections(task, records),
        layers=summarize(
            task.model, _summary_length(task), pixels=getattr(recipe.data, "image_size", 0)
        ),
        recipe=to_toml(to_table(recipe)),
        commands=(
            f"workings train --repeat {folder} --out again   # the recipe below, on the same data",
            f"workings evaluate {folder}",
        ),
        environment=format_environment(read_json(folder / "environment.json")),
    )
    write_text(folder / "report.html", render.html(report))
    chart = curve_chart(curves, measure_names(curves)[0])
    chart.save(folder / "curves.svg")
    with suppress(ModuleNotFoundError):  # the extra `pictures` is for those who want it
        chart.save(folder / "curves.png")


def _write_lead(task: Task, result: dict[str, Any]) -> str:
    model, told = task.recipe.model, task.data_info
    began = "from scratch"
    if isinstance(model, CaptionerConfig) and model.pretrained:
        began = f"from {model.encoder}'s weights"
    return (
        f"{result['parameters']:,} parameters ({model.kind}), trained {began} on "
        f"{told['train']:,} {task.data_unit} of {told['set']} in {result['minutes']:.1f} minutes on "
        f"{_pluralize(result['threads'], 'thread')}; seed {task.recipe.seed}."
    )


def _pluralize(n: int, singular: str, plural: str = "") -> str:
    return f"{n:,} {singular if n == 1 else plural or singular + 's'}"


def format_result(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Write what a result says of a model, as it is read by people.

    >>> format_result({"best_epoch": 1200, "test_accuracy": 0.875, "test_bleu_4": 21.0})
    [('best epoch', '1,200'), ('test accuracy', '87.50 %'), ('BLEU-4', '21.00')]
    """
    return [
        (METRIC_LABELS.get(key) or key.replace("_", " "), _format_figure(key, value))
        for key, value in result.items()
        if key.startswith(("test_", "validation_", "sliding_")) or key == "best_epoch"
    ]


def _format_figure(key: str, value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if "accuracy" in key:
        return f"{100 * value:.2f} %"
    return f"{value:.2f}" if key in METRIC_LABELS else f"{value:.4f}"


def list_signatures(result: dict[str, Any]) -> list[tuple[str, str]]:
    """How scores were measured, in a word that can be held against another."""
    return [(key.replace("_", " "), result[key]) for key in result if key.endswith("signature")]


def _build_sections(task: Task, records: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """What only this kind of task has to show."""
    if isinstance(task, Classification):
        part = "test" if task.examples.get("test") else "validation"
        return build_mistake_sections(task, part) if task.examples.get(part) else []
    if isinstance(task, Captioning):
        return build_caption_sections(task)
    remarks = [r for r in records if r["kind"] == "sample"]
    samples = [
        (r["epoch"], r["sample"])
        for r in remarks
        if isinstance(r.get("epoch"), int) and isinstance(r.get("sample"), str)
    ]
    return [("Samples", samples_html(samples))] if samples else []


def _summary_length(task: Task) -> int:
    """How long a text is that the layer table is written for."""
    if isinstance(task, Classification):
        return task.model.fixed_length or int(task.recipe.data.max_length)
    return int(getattr(task.recipe.data, "context_length", SUMMARY_SENTENCE_LENGTH))


def format_environment(table: dict[str, Any]) -> dict[str, str]:
    """Write what a run was made with as one list."""
    packages, data = table.pop("packages", {}), table.pop("data", {})
    command = " ".join(table.pop("command", sys.argv))
    facts = {k: v for k, v in table.items() if k not in ("format", "files")}
    facts |= {f"data.{k}": v for k, v in data.items()} | packages | {"command": command}
    return {k: str(v) for k, v in facts.items()}
