"""One traced pass: all weights, the number of passes, ablation, maps, and inputs refused."""

import math
import re
from array import array

import numpy as np
import pytest
import torch
from numpy_heads import capture_inputs, compute_head
from small_tasks import (
    captioning_task,
    classification_task,
    count_passes,
    custom_task,
    language_task,
    recurrent_language_task,
    translation_task,
)

from workings.cli import main
from workings.data import BytePairTokenizer, CharacterTokenizer
from workings.errors import UserError
from workings.interpret.attention import (
    ALIGNMENT,
    ablate_heads,
    alignment_stack,
    caption_attention,
    collect,
    compute_alignment,
    compute_attention_maps,
)
from workings.interpret.results import HeadIndex
from workings.models.language import build_language_model
from workings.models.seq2seq import START
from workings.tasks.attention import MAX_TOKENS, NoAttentionError
from workings.tasks.captioning import collate_pictures

TEXT, SOURCE, TARGET = "to be, or not", "the cat sat", "le chat"
CHARACTERS = CharacterTokenizer.train([TEXT])
WORDS = ["the", "cat", "sat", "le", "chat"]
MAP_TEXT = "if (x == 1): <b>"
MAP_CHARACTERS = CharacterTokenizer.train([MAP_TEXT])
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
        (lambda: collect(custom_task(), TEXT), "a custom model has no attention: expected a class"),
        (lambda: collect(language_task(CHARACTERS), ""), "an empty text"),
        (lambda: collect(language_task(CHARACTERS), TEXT, "x"), "only translators and captioners"),
        (lambda: collect(language_task(CHARACTERS), IMAGE), "an image needs a captioner"),
        (lambda: collect(translation_task(WORDS), IMAGE), "an image needs a captioner"),
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


# -- maps ----------------------------------------------------------------------------------------


def to_tensor(head_map):
    return torch.tensor([list(row) for row in head_map.weights])


@torch.no_grad()
def test_rows_sum_to_one_and_match_the_softmax():
    task = language_task(MAP_CHARACTERS, positions="sinusoidal")
    maps = compute_attention_maps(task, MAP_TEXT)
    assert [m.name for m in maps.maps][3:5] == ["layer 1, head 4", "layer 2, head 1"]
    assert maps.rows == maps.columns == list(MAP_TEXT)
    for head_map in maps.maps:
        weights = to_tensor(head_map)
        torch.testing.assert_close(weights.sum(1), torch.ones(len(MAP_TEXT)))
        assert (weights.triu(1) == 0).all()
    model = task.model.eval()
    block = model.blocks[0]
    x = model.positions(model.embedding(torch.tensor([MAP_CHARACTERS.encode(MAP_TEXT)])))
    q, k, _ = block.attention.qkv(block.attention_residual.norm(x)).chunk(3, -1)
    for head in range(4):
        columns = slice(4 * head, 4 * head + 4)
        scores = q[0, :, columns] @ k[0, :, columns].T / math.sqrt(4)
        is_future = torch.ones_like(scores, dtype=torch.bool).triu(1)
        expected = torch.softmax(scores.masked_fill(is_future, -math.inf), -1)
        torch.testing.assert_close(to_tensor(maps.maps[head]), expected, atol=1e-6, rtol=1e-5)


def test_layers_and_heads_are_counted_from_1():
    task = language_task(MAP_CHARACTERS)
    maps = compute_attention_maps(task, MAP_TEXT, layers=[2], heads=[1, 4])
    assert [m.name for m in maps.maps] == ["layer 2, head 1", "layer 2, head 4"]
    assert [(m.index.layer, m.index.head) for m in maps.maps] == [(2, 1), (2, 4)]
    with pytest.raises(UserError, match="layer 3: this model has 2"):
        compute_attention_maps(task, MAP_TEXT, layers=[3])
    with pytest.raises(UserError, match="head 0: this model has 4"):
        compute_attention_maps(task, MAP_TEXT, heads=[0])


def test_maps_of_a_classifier():
    task = classification_task(["the", "film", "was", "not", "bad"], layers=1)
    maps = compute_attention_maps(task, "The film, not bad")
    assert list(maps.rows) == ["The", "film", ",", "not", "bad"]
    assert len(maps.maps) == 2
    assert sum(maps.maps[0].weights[0]) == pytest.approx(1, abs=1e-5)
    assert maps.maps[0].weights[0][4] > 0  # a classifier has no causal mask


def test_models_without_maps_are_refused():
    with pytest.raises(UserError, match="no attention"):
        compute_attention_maps(recurrent_language_task(MAP_TEXT), MAP_TEXT)
    with pytest.raises(UserError, match="an empty text"):
        compute_attention_maps(language_task(MAP_CHARACTERS), "")
    with pytest.raises(UserError, match=r"for a translator: workings translate RUN … --show"):
        compute_attention_maps(translation_task(WORDS), SOURCE)
    with pytest.raises(UserError, match=r"for a captioner: workings caption RUN … --show"):
        compute_attention_maps(captioning_task(), SOURCE)
    with pytest.raises(UserError, match="a custom model has no attention"):
        compute_attention_maps(custom_task(), MAP_TEXT)


def test_long_text_is_truncated_and_rendered():
    maps = compute_attention_maps(language_task(MAP_CHARACTERS, layers=1, heads=2), MAP_TEXT * 40)
    assert len(maps.rows) == 512
    assert maps.truncated_characters == len(MAP_TEXT) * 40 - 512
    assert isinstance(maps.maps[0].weights[0], array)
    page = maps.html()
    assert len(page) < 2_000_000
    assert "img-src data:" in page
    assert f"the last {maps.truncated_characters:,} characters" in page
    assert maps.picture().png()[:4] == b"\x89PNG"
    for color in (False, True):
        assert max(map(len, maps.text(width=100).splitlines())) <= 100
        assert "layer 1, head 2" in maps.text(width=100, color=color)


def test_learned_positions_limit_the_text():
    task = language_task(MAP_CHARACTERS, positions="learned", max_positions=8)
    maps = compute_attention_maps(task, MAP_TEXT)
    assert len(maps.rows) == 8
    assert maps.truncated_characters == len(MAP_TEXT) - 8


def test_byte_pairs_of_one_character_have_its_text():
    tokenizer = BytePairTokenizer.train([MAP_TEXT * 20], vocab_size=262)
    maps = compute_attention_maps(language_task(tokenizer), MAP_TEXT + "🙂")
    assert "".join(dict.fromkeys(maps.rows[-4:])) == "🙂"
    assert maps.truncated_characters == 0


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_alignment_is_the_mean_of_all_cross_attention_heads(kind):
    task = translation_task(WORDS, kind=kind)
    stacks = collect(task, "the cat sat", "le chat")
    maps = compute_alignment(task, "the cat sat", "le chat")
    heads = np.concatenate(stacks["cross"].weights)
    np.testing.assert_allclose(to_tensor(maps.maps[0]), heads.mean(0), atol=1e-6)
    assert maps.maps[0].name == ("mean of 6 heads" if kind == "transformer" else "attention")
    assert (maps.rows, maps.columns) == (["le", "chat", "</s>"], ["the", "cat", "sat", "</s>"])
    assert maps.is_alignment
    stack = alignment_stack(stacks["cross"])
    assert (stack.part, stack.head_name(1, 1)) == (ALIGNMENT, maps.maps[0].name)
    np.testing.assert_allclose(stack.weights[0][0], to_tensor(maps.maps[0]), atol=1e-6)
    if kind == "transformer":
        chosen = compute_alignment(task, "the cat sat", "le chat", layers=[2], heads=[3])
        assert [m.name for m in chosen.maps] == ["layer 2, head 3"]


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_caption_attention_has_one_grid_per_word(kind):
    task, image = captioning_task(kind), np.zeros((16, 16, 3), np.uint8)
    caption = next(task.caption([image]))[0]
    result = caption_attention(task, image, caption, "black")
    assert result.weights.shape == (len(result.words), 4, 4)
    np.testing.assert_allclose(result.weights.sum((1, 2)), 1, atol=1e-5)


def test_caption_without_attention_has_no_weights():
    task, image = captioning_task("recurrent", attention="none"), np.zeros((16, 16, 3), np.uint8)
    caption = next(task.caption([image]))[0]
    assert caption_attention(task, image, caption, "black").weights is None
    with pytest.raises(UserError, match="this captioner has no attention"):
        caption_attention(task, image, caption, "black", layers=[1])
