"""The recorded stages equal the model's own intermediate values and torch's layers."""

import threading

import numpy as np
import pytest
import torch
from small_tasks import (
    captioning_task,
    classification_task,
    language_task,
    recurrent_language_task,
    translation_task,
)

from workings.data import CharacterTokenizer
from workings.data.scenes import draw_scene, generate_scenes
from workings.errors import UserError
from workings.interpret.stages import MAX_STAGE_TOKENS, Stage, record_stages
from workings.trace import Trace

TEXT = "the cat sat"
WORDS = ["the", "cat", "sat", "le", "chat"]


def by_path(stages: list[Stage]) -> dict[str, Stage]:
    return {stage.path: stage for stage in stages}


def test_stages_of_a_transformer_are_what_its_taps_record() -> None:
    task = language_task(CharacterTokenizer.train([TEXT]))
    stages = record_stages(task, "the cat")
    ids = torch.tensor([task.encode_with_spans("the cat")[0]])
    with torch.no_grad(), Trace(task.model) as trace:
        task.model.eval()(ids)
    recorded = by_path(stages)
    for k in range(2):
        for path, tap in (
            (f"blocks.{k}.attention", f"blocks.{k}.attention.output"),
            (f"blocks.{k}.feed_forward_residual", f"blocks.{k}.residual"),
        ):
            np.testing.assert_allclose(recorded[path].values, trace[tap][0], rtol=0, atol=1e-5)
    assert list(dict.fromkeys(stage.group for stage in stages)) == [
        "input",
        "layer 1",
        "layer 2",
        "output",
    ]
    assert [stage.name for stage in stages if stage.group == "layer 1"] == [
        "norm",
        "attention",
        "residual after attention",
        "norm",
        "feed-forward",
        "residual after feed-forward",
    ]
    assert all(list(stage.tokens) == list("the␣cat") for stage in stages)


def test_states_of_a_recurrent_layer_are_those_of_torch() -> None:
    task = recurrent_language_task(TEXT)
    stages = by_path(record_stages(task, TEXT))
    layer = task.model.recurrent.layers[0][0].layer
    with torch.no_grad():
        ids = torch.tensor([task.encode_with_spans(TEXT)[0]])
        states, _ = layer(task.model.embedding(ids))
    hidden = stages["recurrent.layers.0.0.hidden"]
    assert hidden.is_recurrent
    np.testing.assert_allclose(hidden.values, states[0], rtol=0, atol=1e-6)


def test_backward_states_are_in_the_order_of_the_tokens() -> None:
    task = translation_task(WORDS, kind="recurrent")
    stages = by_path(record_stages(task, TEXT, task.translate_one(TEXT)))
    backward = stages["encoder.layers.0.1.hidden"]
    assert backward.name == "hidden, backward"
    rows = torch.from_numpy(stages["source_embedding"].values)[None]
    embedded = rows * rows.shape[-1] ** 0.5
    with torch.no_grad():
        states, _ = task.model.encoder.layers[0][1].layer(embedded.flip(1))
    np.testing.assert_allclose(backward.values, states[0].flip(0), rtol=0, atol=1e-6)


def test_translator_has_the_stages_of_both_sides() -> None:
    task = translation_task(WORDS)
    translation = task.translate_one(TEXT)
    stages = record_stages(task, TEXT, translation)
    positions = [stage for stage in stages if stage.name == "embedding + position"]
    assert [stage.group for stage in positions] == ["source", "target"]
    groups = list(dict.fromkeys(stage.group for stage in stages))
    assert groups.index("source") < groups.index("encoder layer 2") < groups.index("target")
    cross = by_path(stages)["decoder.1.cross_attention"]
    assert cross.name == "cross-attention"
    assert len(cross.tokens) == len(translation.tokens) + 1  # after <s>


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_captioner_and_classifier_are_drawn(kind: str) -> None:
    task = captioning_task(kind)
    image = draw_scene(next(generate_scenes("test")), 16)
    stages = record_stages(task, image, task.respond(image).generation)
    grid = next(stage for stage in stages if stage.name == "image grid")
    assert grid.tokens[:2] == ["(1,1)", "(1,2)"]
    assert len(grid.tokens) == len(grid.values)
    assert any(stage.group == "decoder layer 1" for stage in stages)
    classifier = classification_task(WORDS, kind=kind)
    assert {len(stage.tokens) for stage in record_stages(classifier, TEXT)} == {3}


def test_other_threads_may_run_the_model_meanwhile() -> None:
    task = language_task(CharacterTokenizer.train([TEXT]))
    expected = record_stages(task, TEXT)
    ids = torch.tensor([task.encode_with_spans(TEXT)[0]])

    def run_elsewhere(*_: object) -> None:
        handle.remove()
        thread = threading.Thread(target=task.model, args=(ids,))
        thread.start()
        thread.join()

    handle = task.model.blocks[1].register_forward_pre_hook(run_elsewhere)
    stages = record_stages(task, TEXT)
    assert [s.path for s in stages] == [s.path for s in expected]


def test_long_text_is_refused() -> None:
    task = recurrent_language_task(TEXT)
    with pytest.raises(UserError, match="drawn for at most 512"):
        record_stages(task, "t" * (MAX_STAGE_TOKENS + 1))
