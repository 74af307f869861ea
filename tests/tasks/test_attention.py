"""The pass of each task: what runs, which layers it has, and what rows and columns are called."""

import numpy as np
import pytest
import torch
from small_tasks import captioning_task, classification_task, language_task, translation_task

from workings.data import CharacterTokenizer
from workings.errors import UserError
from workings.models.classifiers import build_classifier
from workings.models.language import build_language_model
from workings.models.seq2seq import START
from workings.models.translation import build_translator
from workings.tasks.attention import (
    NoAttentionError,
    PassOptions,
    collect_cross_attention,
    find_attention_layers,
)
from workings.tasks.base import Generation
from workings.tasks.translation import collate_sources
from workings.training.runs import load

WORDS = ["the", "cat", "sat", "le", "chat"]
SOURCE = "the cat sat"
TRANSFORMER = {"kind": "transformer", "d_model": 8, "d_ff": 8, "layers": 2, "heads": 2}
IMAGE = np.zeros((16, 16, 3), np.uint8)


def test_layers_by_part():
    model = build_language_model(TRANSFORMER, 20)
    assert find_attention_layers(model) == {"decoder": ["blocks.0.attention", "blocks.1.attention"]}
    assert list(find_attention_layers(build_classifier(TRANSFORMER, 20, 3))) == ["encoder"]
    translator = build_translator({**TRANSFORMER, "layers": 1}, 20, 20)
    assert find_attention_layers(translator) == {
        "encoder": ["encoder.0.attention"],
        "decoder": ["decoder.0.attention"],
        "cross": ["decoder.0.cross_attention"],
    }
    assert find_attention_layers(build_language_model({"kind": "recurrent"}, 20)) == {}


def test_texts_have_one_part_and_logits():
    for task, part in (
        (classification_task(WORDS), "encoder"),
        (language_task(CharacterTokenizer.train([SOURCE])), "decoder"),
    ):
        plan = task.plan_attention(SOURCE, None, PassOptions())
        (spec,) = plan.specs
        assert (spec.part, len(spec.layer_paths)) == (part, 2)
        assert plan.target is None
        trace, logits = plan.trace([f"{path}.weights" for path in spec.layer_paths])
        assert logits.dim() == 1
        shape = (len(spec.query_tokens), len(spec.key_tokens))
        assert all(weights.shape[1:] == shape for weights in spec.read_weights(trace))


def test_translator_generates_its_target_unless_it_is_given_one():
    task = translation_task(WORDS)
    plan = task.plan_attention(SOURCE, None, PassOptions())
    assert plan.target.text == task.translate_one(SOURCE).text
    given = task.plan_attention(SOURCE, "le chat", PassOptions())
    assert given.target.pieces == ["le", " chat"]
    assert given.target.labels == ["le", "chat"]
    tokens = tuple(task.tokenizers.target.encode("chat le"))
    chosen = task.plan_attention(SOURCE, Generation("chat le", tokens, 0.0, 0.0), PassOptions())
    assert chosen.target.tokens == list(tokens)
    (spec,) = task.plan_attention(SOURCE, None, PassOptions(("encoder",))).specs
    assert spec.query_tokens == ["the", "cat", "sat", "</s>"]


def test_grid_cells_are_named_after_the_pass():
    task = captioning_task()
    cross, decoder = task.plan_attention(IMAGE, "a red square", PassOptions()).specs
    assert cross.key_tokens is None
    assert cross.name_keys(4, None) == ["(1,1)", "(1,2)", "(2,1)", "(2,2)"]
    assert decoder.name_keys(4, None) == ["<s>", "a", "red", "square"]


def test_models_without_attention_say_so():
    for task, model_input in (
        (classification_task(WORDS, kind="recurrent"), SOURCE),
        (translation_task(WORDS, kind="recurrent", attention="none"), SOURCE),
        (captioning_task("recurrent", attention="none"), IMAGE),
        (language_task(CharacterTokenizer.train([SOURCE])), ""),
    ):
        with pytest.raises(NoAttentionError, match="no attention"):
            task.plan_attention(model_input, None, PassOptions())


def test_long_text_is_translated_in_parts_and_has_no_alignment():
    task = translation_task(WORDS)
    task.check_single_sentence(SOURCE)
    with pytest.raises(UserError, match="400 tokens: an alignment needs one sentence of at most"):
        task.plan_attention("cat " * 400, None, PassOptions())
    with pytest.raises(NoAttentionError, match="an empty text"):
        task.check_single_sentence(" ")


def test_cross_attention_weights_sum_to_one(pairs_run):
    task = load(pairs_run)
    source = collate_sources([task.tokenizers.encode_source("one cat")], task.model)
    (weights,) = collect_cross_attention(task.model, source, torch.tensor([[START, 5]]))
    assert weights.shape == (1, 1, 2, 3)
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 1, 2))
