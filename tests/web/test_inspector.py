"""The page runs a model as few times as possible."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from small_tasks import (
    captioning_task,
    classification_task,
    count_passes,
    language_task,
    translation_task,
)

from workings.data import CharacterTokenizer
from workings.tasks.translation import collate_sources
from workings.web.inspector import Inspector
from workings.web.requests import AblatedHead, DerivationRequest, HeatmapRequest, InspectRequest

WORDS = ["the", "cat", "sat", "le", "chat"]
SOURCE = "the cat sat"


def build_inspector(task: Any) -> Inspector:
    registry = SimpleNamespace(
        load_task=lambda _: task, get_run=lambda _: SimpleNamespace(kind="any")
    )
    return Inspector(registry)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_translator_searches_and_runs_once(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    task = translation_task(WORDS, kind=kind)
    encode = "encode" if kind == "transformer" else "init_state"
    counts = count_passes(monkeypatch, task.model, encode, "forward_features")
    task.translate_one(SOURCE)
    search = counts.copy()
    assert search == {encode: 1}
    counts.clear()
    inspector = build_inspector(task)
    view = inspector.inspect(InspectRequest(run="r", text=SOURCE))
    parts = ["cross", "decoder", "encoder"] if kind == "transformer" else []
    assert [stack.part for stack in view.stacks] == ["alignment", *parts]
    assert counts - search == {encode: 1, "forward_features": 1}
    counts.clear()
    inspector.heatmap(HeatmapRequest(run="r", text=SOURCE, part="alignment"))
    assert not counts  # cached


@torch.no_grad()
def test_bars_of_a_translation_are_the_probabilities_of_its_tokens() -> None:
    task = translation_task(WORDS, kind="transformer")
    inspector = build_inspector(task)
    request = InspectRequest(run="r", text=SOURCE)
    view = inspector.inspect(request)
    generation = task.respond(SOURCE).generation
    assert generation is not None
    model = task.model
    source = collate_sources([task.tokenizers.encode_source(SOURCE)], model)
    logits, state = model.start(source)
    for token, bar in zip(generation.tokens, view.bars, strict=True):
        assert bar.probability == pytest.approx(logits.softmax(-1)[0, token].item(), rel=1e-4)
        logits, state = model.step(torch.tensor([token]), state)
    ablated = [AblatedHead(part="cross", layer=1, head=1)]
    view = inspector.inspect(replace(request, ablated_heads=ablated))
    assert all(bar.other is not None for bar in view.bars)


def test_captioner_searches_and_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    task = captioning_task()
    counts = count_passes(monkeypatch, task.model, "encode", "forward_features")
    view = build_inspector(task).inspect(InspectRequest(run="r", scene=1))
    assert [stack.part for stack in view.stacks] == ["cross", "decoder"]
    assert view.output.caption_attention is not None
    assert view.output.caption_attention.tiles
    assert counts == {"encode": 2, "forward_features": 1}  # the search, and the traced pass


def test_language_model_and_classifier_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    language = language_task(CharacterTokenizer.train([SOURCE]))
    counts = count_passes(monkeypatch, language.model, "forward_features")
    view = build_inspector(language).inspect(InspectRequest(run="r", text=SOURCE))
    assert view.bars
    assert view.stacks
    assert counts == {"forward_features": 1}
    classifier = classification_task(WORDS)
    counts = count_passes(monkeypatch, classifier.model, "forward")
    view = build_inspector(classifier).inspect(InspectRequest(run="r", text=SOURCE))
    assert view.bars
    assert view.stacks
    assert counts == {"forward": 1}


def test_generation_without_attention_has_a_note() -> None:
    for task in (
        translation_task(WORDS, kind="recurrent", attention="none"),
        captioning_task("recurrent", attention="none"),
    ):
        view = build_inspector(task).inspect(InspectRequest(run="r", text=SOURCE))
        assert view.output.text is not None
        assert not view.stacks
        assert [note.split(" (")[0] for note in view.output.notes] == [
            f"this {task.noun} has no attention"
        ]


def test_classifier_truncates_a_text_of_any_length() -> None:
    task = classification_task(WORDS, max_length=3000, kind="recurrent")
    view = build_inspector(task).inspect(InspectRequest(run="r", text="cat " * 2500))
    assert len(view.tokens) == 2500
    assert view.bars


def test_derivation_runs_twice_even_if_the_head_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    task = language_task(CharacterTokenizer.train([SOURCE]), d_model=128, heads=8)
    inspector = build_inspector(task)
    inspector.inspect(InspectRequest(run="r", text=SOURCE))
    counts = count_passes(monkeypatch, task.model, "forward_features")
    request = DerivationRequest(
        run="r", text=SOURCE, part="decoder", layer=1, head=2, row=4, column=2
    )
    _, table = inspector.derive_cell(request)
    assert table is not None  # starts from Q, K and V: X would be too wide
    assert counts == {"forward_features": 2}  # with all taps, and fused
