"""The report of a run: report.html and its curves. Imported only when a report is written."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from workings.config import to_table, to_toml
from workings.interpret.attention import caption_attention
from workings.interpret.attribution import explain
from workings.interpret.results import Attribution
from workings.io import write_text
from workings.render import html
from workings.render.attribution import render_summary
from workings.render.caption_attention import caption_strip
from workings.render.page import escape_html
from workings.render.training_report import (
    TrainingReport,
    class_scores_html,
    confusion_matrix_html,
    curve_chart,
    measure_names,
    samples_html,
)
from workings.storage import read_json
from workings.tasks.base import Task
from workings.training.log_damage import describe_log_damage
from workings.training.logging import read_log
from workings.training.report_text import format_environment, format_result, list_signatures

NUM_CAPTIONS = 6  # images in a report
NUM_MISTAKES = 8  # wrong predictions in a report
MAX_CHARACTERS = 1500  # shown of the text of a wrong prediction


def write_report(folder: Path, task: Task) -> None:
    """Write report.html, curves.svg and curves.png of a run that has its result."""
    records = read_log(folder / "log.jsonl")
    curves = [r for r in records if r["kind"] == "epoch"]
    result, recipe = read_json(folder / "result.json"), task.recipe
    report = TrainingReport(
        title=recipe.title or recipe.model.kind,
        lead=_write_lead(task, result),
        headline_metrics=format_result(result),
        notes=_write_notes(folder, result),
        curves=curves,
        sections=_build_sections(task, records),
        layers=task.summarize_model(),
        recipe=to_toml(to_table(recipe)),
        commands=(
            f"workings train --repeat {folder} --out again   # the recipe below, on the same data",
            f"workings evaluate {folder}",
        ),
        environment=format_environment(read_json(folder / "environment.json")),
    )
    write_text(folder / "report.html", html(report))
    chart = curve_chart(curves, measure_names(curves)[0])
    chart.save(folder / "curves.svg")
    with suppress(ModuleNotFoundError):  # PNG needs the extra `pictures`
        chart.save(folder / "curves.png")


def _write_notes(folder: Path, result: dict[str, Any]) -> list[str]:
    notes = [f"{name}: {text}" for name, text in list_signatures(result)]
    return [*notes, *filter(None, [describe_log_damage(folder)])]


def _write_lead(task: Task, result: dict[str, Any]) -> str:
    model, data = task.recipe.model, task.data_info
    threads = result["threads"]
    return (
        f"{result['parameters']:,} parameters ({model.kind}), trained {task.initial_weights} on "
        f"{data['train']:,} {task.data_unit} of {data['set']} in {result['minutes']:.1f} minutes "
        f"on {threads:,} {'thread' if threads == 1 else 'threads'}; seed {task.recipe.seed}."
    )


def _build_sections(task: Task, records: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return mistakes or captions of held-out data, or else logged samples: headings and HTML."""
    return (
        _build_mistake_sections(task)
        or _build_caption_sections(task)
        or _build_sample_sections(records)
    )


def _build_sample_sections(records: list[dict[str, Any]]) -> list[tuple[str, str]]:
    samples = [
        (r["epoch"], r["sample"])
        for r in records
        if r["kind"] == "sample"
        and isinstance(r.get("epoch"), int)
        and isinstance(r.get("sample"), str)
    ]
    return [("Samples", samples_html(samples))] if samples else []


def _build_caption_sections(task: Task) -> list[tuple[str, str]]:
    """Return the first test (or validation) images with caption, attention and references."""
    samples, items = task.caption_held_out(NUM_CAPTIONS), []
    for sample in samples:
        attention = caption_attention(task, sample.image, sample.caption, sample.name)
        references = "<br>".join(escape_html(text) for text in sample.references)
        items.append(
            f'<h3 dir="auto">{escape_html(attention.caption)}</h3>\n'
            f'<p class="what" dir="auto">References:<br>{references}</p>\n'
            f"{caption_strip(attention)}"
        )
    return [(f"Captions ({samples[0].split})", "\n".join(items))] if items else []


def _build_mistake_sections(task: Task) -> list[tuple[str, str]]:
    """Return the classes, their confusion matrix, and the surest mistakes with attributions."""
    held_out, classes = task.predict_held_out(), len(task.labels)
    if held_out is None:
        return []
    logits, targets, split = held_out.logits, held_out.targets, held_out.split
    scores = held_out.scheme.count(logits, targets).list_scores(task.labels)
    table = class_scores_html({score.label: score.to_dict() for score in scores})
    sections = [(f"Classes ({split})", table)]
    if targets.ndim == 1:  # each text has one label
        counts = torch.bincount(targets * classes + logits.argmax(-1), minlength=classes * classes)
        matrix = counts.view(classes, classes).tolist()
        sections.append((f"Confusion matrix ({split})", confusion_matrix_html(task.labels, matrix)))
    confidence = held_out.scheme.error_confidence(logits, targets)
    ranked = confidence.topk(min(NUM_MISTAKES, len(confidence))).indices
    mistakes = [int(i) for i in ranked if confidence[i] > 0]
    if mistakes:
        items = [
            _render_mistake(task, held_out.texts[i], held_out.target_names[i]) for i in mistakes
        ]
        sections.append((f"Surest mistakes ({split})", "\n".join(items)))
    return sections


def _render_mistake(task: Task, text: str, label: str) -> str:
    method = "attention" if task.recipe.model.kind == "transformer" else "occlusion"
    attribution = explain(task, text, methods=[method])
    return (
        f'<div class="wrong-one"><p>true: <b dir="auto">{escape_html(label)}</b></p>'
        f"{render_summary(_truncate_explanation(attribution))}</div>"
    )


def _truncate_explanation(explanation: Attribution) -> Attribution:
    """Cut the text of an explanation to MAX_CHARACTERS; the attributions stay the same."""
    text = explanation.input_text
    spans = [span for span in explanation.spans if span[1] <= MAX_CHARACTERS]
    return replace(
        explanation,
        input_text=text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…",
        spans=spans,
        unknown_tokens=[k for k in explanation.unknown_tokens if k < len(spans)],
        token_attributions=[
            replace(a, values=a.values[: len(spans)]) for a in explanation.token_attributions
        ],
    )
