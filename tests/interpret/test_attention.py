"""One traced pass: all weights, the number of passes, ablation, and inputs that are refused."""

import re

import numpy as np
import pytest
import torch
from numpy_heads import capture_inputs, compute_head
from small_tasks import (
    captioning_task,
    classification_task,
    count_passes,
    language_task,
    translation_task,
)

from workings.cli import main
from workings.data import CharacterTokenizer
from workings.errors import UserError
from workings.interpret.attention import (
    MAX_TOKENS,
    NoAttentionError,
    ablate_heads,
    collect,
    find_attention_layers,
)
from workings.interpret.results import HeadIndex
from workings.models.classifiers import build_classifier
from workings.models.language import build_language_model
from workings.models.seq2seq import START
from workings.models.translation import build_translator
from workings.tasks.captioning import collate_pictures

TEXT, SOURCE, TARGET = "to be, or not", "the cat sat", "le chat"
CHARACTERS = CharacterTokenizer.train([TEXT])
WORDS = ["the", "cat", "sat", "le", "chat"]
TRANSFORMER = {"kind": "transformer", "d_model": 8, "d_ff": 8, "layers": 2, "heads": 2}
IMAGE = np.random.default_rng(1).integers(0, 256, (16, 16, 3), np.uint8)


# -- collect -------------------------------------------------------------------------------------


def test_language_model_has_one_causal_stack_and_its_next_token_logits():
    task = language_task(CHARACTERS)
    stacks = collect(task, TEXT)
    (stack,) = stacks
    assert (stack.part, stack.is_causal, stack.num_layers, stack.num_heads) == (
        "decoder",
        True,
        2,
        4,
    )
    assert stack.query_tokens == stack.key_tokens == list(TEXT)
    for weights in stack.weights:
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)
        assert (np.triu(weights, 1) == 0).all()
    with torch.no_grad():
        logits, _ = task.model.start(torch.tensor([CHARACTERS.encode(TEXT)]))
    np.testing.assert_allclose(stacks.logits, logits[0], atol=1e-5)


@pytest.mark.parametrize("padding", ["masked", "unmasked", "left"])
def test_classifier_has_padding_only_if_it_is_not_masked(padding):
    task = classification_task(WORDS, padding=padding)
    stacks = collect(task, SOURCE)
    (stack,) = stacks
    words, padded = ["the", "cat", "sat"], ["<pad>"] * (0 if padding == "masked" else 5)
    assert stack.query_tokens == (padded + words if padding == "left" else words + padded)
    cropped = stack.without_padding()
    assert cropped.query_tokens == words
    assert cropped.weights[1].shape == (2, 3, 3)
    expected = task.predict([SOURCE])[0]
    torch.testing.assert_close(torch.softmax(torch.from_numpy(stacks.logits), -1), expected)


def test_translator_has_all_parts_of_one_pass():
    stacks = collect(translation_task(WORDS), SOURCE, TARGET)
    assert [stack.part for stack in stacks] == ["cross", "decoder", "encoder"]
    read, inputs = ["the", "cat", "sat", "</s>"], ["<s>", "le", "chat"]
    assert (stacks["cross"].query_tokens, stacks["cross"].key_tokens) == (inputs, read)
    assert stacks["cross"].output_tokens == ["le", "chat", "</s>"]
    assert stacks["decoder"].key_tokens == inputs
    assert stacks["encoder"].query_tokens == read
    assert stacks["decoder"].is_causal
    assert stacks.target_text == TARGET
    with pytest.raises(UserError, match=r"part 'alignment': .* it has cross, decoder, encoder"):
        stacks["alignment"]


def test_recurrent_decoder_has_one_row_per_step():
    (stack,) = collect(translation_task(WORDS, kind="recurrent"), SOURCE, TARGET)
    assert (stack.part, stack.is_multi_head) == ("cross", False)
    assert stack.weights[0].shape == (1, 3, 4)
    np.testing.assert_allclose(stack.weights[0].sum(-1), 1, atol=1e-6)
    with pytest.raises(NoAttentionError, match=r"no attention \(model.attention is none or fixed"):
        collect(translation_task(WORDS, kind="recurrent", attention="fixed"), SOURCE, TARGET)


@pytest.mark.parametrize("part", ["cross", "decoder"])
def test_captioner_weights_match_numpy(part):
    task, caption = captioning_task(), "a red square"
    source = collate_pictures([IMAGE], task.model)
    ids = torch.tensor([[START, *task.tokenizer.encode(caption)]])
    path = f"decoder.1.{'cross_attention' if part == 'cross' else 'attention'}"
    inputs = capture_inputs(task, path, lambda t: t.model.forward_features(source, ids))
    stack = collect(task, IMAGE, caption)[part]
    for head in (1, 2, 3):
        expected = compute_head(
            task.model.get_submodule(path), head, *inputs, causal=part == "decoder"
        )
        np.testing.assert_allclose(stack.head_weights(2, head), expected["weights"], atol=1e-5)
    assert list(stack.query_tokens) == ["<s>", "a", "red", "square"]
    if part == "cross":
        assert list(stack.key_tokens[:2]) == ["(1,1)", "(1,2)"]
        assert len(stack.key_tokens) == len(inputs[1])


def test_model_in_training_mode_is_evaluated_and_restored():
    task = language_task(CHARACTERS, dropout=0.5)
    expected = collect(task, TEXT)
    task.model.train()
    stacks = collect(task, TEXT)
    assert task.model.training
    np.testing.assert_array_equal(stacks.logits, expected.logits)
    np.testing.assert_array_equal(stacks.stacks[0].weights[1], expected.stacks[0].weights[1])


def test_long_text_is_refused_or_truncated():
    task = language_task(CHARACTERS, layers=1)
    with pytest.raises(UserError, match="520 tokens: attention is shown for at most 512"):
        collect(task, TEXT * 40)
    stacks = collect(task, TEXT * 40, truncate=True)
    assert len(stacks.stacks[0].query_tokens) == MAX_TOKENS
    assert stacks.truncated_characters == len(TEXT) * 40 - MAX_TOKENS


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: collect(object(), TEXT), "classifier, language model, translator or captioner"),
        (lambda: collect(language_task(CHARACTERS), ""), "an empty text"),
        (lambda: collect(language_task(CHARACTERS), TEXT, "x"), "only translators and captioners"),
        (lambda: collect(language_task(CHARACTERS), IMAGE), "an image needs a captioner"),
        (lambda: collect(translation_task(WORDS), IMAGE), "needs a text"),
        (lambda: collect(translation_task(WORDS), "cat " * 600), "600 tokens"),
        (lambda: collect(translation_task(WORDS), SOURCE, "le " * 600), "a target of 600 tokens"),
        (lambda: collect(captioning_task(), "a red square"), "a captioner needs an image"),
        (
            lambda: collect(captioning_task(), np.zeros((96, 96, 3), np.uint8), "a"),
            "576 grid cells: attention is shown for at most 512",
        ),
        (lambda: collect(classification_task(WORDS, kind="recurrent"), SOURCE), "no attention"),
        (lambda: collect(captioning_task(), IMAGE, "a", parts=("encoder",)), "only cross and"),
        (lambda: collect(captioning_task(), IMAGE, "a", parts=("zebra",)), "expected one of"),
    ],
)
def test_input_without_attention_is_refused(run, message):
    with pytest.raises(UserError, match=message) as error:
        run()
    assert "\n" not in str(error.value)


# -- number of passes ----------------------------------------------------------------------------


def test_collect_runs_encoder_and_decoder_once(monkeypatch):
    task = translation_task(WORDS)
    counts = count_passes(monkeypatch, task.model, "encode", "forward_features")
    collect(task, SOURCE, TARGET)
    assert counts == {"encode": 1, "forward_features": 1}
    counts.clear()
    collect(task, SOURCE, parts=("encoder",))
    assert counts == {"encode": 1}
    task = captioning_task()
    counts = count_passes(monkeypatch, task.model, "encode", "forward_features")
    collect(task, IMAGE, "a red square")
    assert counts == {"encode": 1, "forward_features": 1}


def test_commands_run_the_model_as_few_times_as_possible(monkeypatch, capsys):
    task = translation_task(WORDS)
    monkeypatch.setattr("workings.training.runs.load", lambda *_: task)
    counts = count_passes(monkeypatch, task.model, "encode", "forward_features")
    task.translate_one(SOURCE)
    assert counts == {"encode": 1}  # a search encodes once and then decodes step by step
    counts.clear()
    assert main(["translate", "RUN", SOURCE, "--show", "--threads", "1"]) == 0
    assert "mean of 6 heads" in capsys.readouterr().out
    assert counts == {"encode": 2, "forward_features": 1}  # the search, and the traced pass
    counts.clear()
    assert main(["head", "RUN", SOURCE, "--target", TARGET, "--threads", "1"]) == 0
    assert "Layer 1, head 1" in capsys.readouterr().out
    assert counts == {"encode": 2, "forward_features": 2}  # with all taps, and fused


# -- layers and ablation -------------------------------------------------------------------------


@pytest.fixture
def model():
    torch.manual_seed(0)
    return build_language_model(TRANSFORMER, 20).eval()


def test_ablated_head_equals_zero_columns_of_the_output_projection(model):
    ids = torch.randint(20, (1, 7))
    intact, _ = model(ids)
    with ablate_heads(model, [HeadIndex("decoder", 2, 1)]):
        ablated, _ = model(ids)
    assert not torch.allclose(ablated, intact)
    with torch.no_grad():
        model.blocks[1].attention.output.weight[:, :4] = 0
    torch.testing.assert_close(ablated, model(ids)[0])


def test_without_any_head_no_token_affects_another(model):
    heads = [HeadIndex("decoder", layer, head) for layer in (1, 2) for head in (1, 2)]
    ids = torch.randint(20, (1, 5))
    other = torch.cat((torch.randint(20, (1, 4)), ids[:, -1:]), 1)
    with ablate_heads(model, heads):
        torch.testing.assert_close(model(other)[0][:, -1], model(ids)[0][:, -1])


def test_ablation_affects_generation_too(model):
    ids = torch.randint(20, (1, 4))
    with ablate_heads(model, [HeadIndex("decoder", 1, 2)]):
        _, state = model.start(ids[:, :3])
        step, _ = model.step(ids[:, 3], state)
        full, _ = model(ids)
    torch.testing.assert_close(step, full[:, -1])


def test_weights_of_an_ablated_head_are_unchanged():
    task = language_task(CHARACTERS)
    intact = collect(task, TEXT)
    with ablate_heads(task.model, [HeadIndex("decoder", 1, 2)]):
        ablated = collect(task, TEXT)
    first, second = (stacks.stacks[0].weights for stacks in (intact, ablated))
    np.testing.assert_array_equal(first[0], second[0])
    assert not np.allclose(first[1], second[1])
    assert not np.allclose(intact.logits, ablated.logits)


def test_layers_by_part(model):
    assert find_attention_layers(model) == {"decoder": ["blocks.0.attention", "blocks.1.attention"]}
    assert list(find_attention_layers(build_classifier(TRANSFORMER, 20, 3))) == ["encoder"]
    translator = build_translator({**TRANSFORMER, "layers": 1}, 20, 20)
    assert find_attention_layers(translator) == {
        "encoder": ["encoder.0.attention"],
        "decoder": ["decoder.0.attention"],
        "cross": ["decoder.0.cross_attention"],
    }
    assert find_attention_layers(build_language_model({"kind": "recurrent"}, 20)) == {}


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (HeadIndex("cross", 1, 1), "no such heads; it has decoder"),
        (HeadIndex("decoder", 3, 1), "this model has 2"),
        (HeadIndex("decoder", 1, 3), "this model has 2"),
    ],
)
def test_ablation_of_a_missing_head_is_refused(model, head, message):
    with pytest.raises(UserError, match=message):
        ablate_heads(model, [head])


def test_stack_has_one_name_per_head():
    stack = collect(language_task(CHARACTERS), TEXT).stacks[0]
    names = [head_map.name for head_map in stack.to_head_maps()]
    assert names == [f"layer {k}, head {h}" for k in (1, 2) for h in (1, 2, 3, 4)]
    assert stack.head_name(2, 3) == str(HeadIndex("decoder", 2, 3)) == "layer 2, head 3"
    with pytest.raises(
        UserError, match=re.escape("layer 3, head 1: there are 2 layers of 4 heads")
    ):
        stack.head_weights(3, 1)
