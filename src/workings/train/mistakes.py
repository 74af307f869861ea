"""What a classifier gets wrong, for its report: the confusion matrix, and its surest mistakes."""

from dataclasses import replace

import torch

from workings.lens.explain import explain
from workings.lens.explanation import Explanation
from workings.tasks.classify import Classifying
from workings.views.explained_html import glance
from workings.views.page import harmless
from workings.views.report import confusion_html

WORST = 8  # mistakes that are shown
LONGEST = 1500  # characters of a text that are shown


def mistakes(task: Classifying, part: str) -> list[tuple[str, str]]:
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
