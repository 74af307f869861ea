"""Attention maps: rows sum to one and match the softmax; alignments and captions."""

import math
from array import array

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

from workings.data import BytePairTokenizer, CharacterTokenizer
from workings.errors import UserError
from workings.interpret.attention import collect
from workings.interpret.attention_maps import (
    ALIGNMENT,
    alignment_stack,
    caption_attention,
    compute_alignment,
    compute_attention_maps,
)

TEXT = "if (x == 1): <b>"
CHARACTERS = CharacterTokenizer.train([TEXT])
WORDS = ["the", "cat", "sat", "le", "chat"]


def to_tensor(head_map):
    return torch.tensor([list(row) for row in head_map.weights])


@torch.no_grad()
def test_rows_sum_to_one_and_match_the_softmax():
    task = language_task(CHARACTERS, positions="sinusoidal")
    maps = compute_attention_maps(task, TEXT)
    assert [m.name for m in maps.maps][3:5] == ["layer 1, head 4", "layer 2, head 1"]
    assert maps.rows == maps.columns == list(TEXT)
    for head_map in maps.maps:
        weights = to_tensor(head_map)
        torch.testing.assert_close(weights.sum(1), torch.ones(len(TEXT)))
        assert (weights.triu(1) == 0).all()
    model = task.model.eval()
    block = model.blocks[0]
    x = model.positions(model.embedding(torch.tensor([CHARACTERS.encode(TEXT)])))
    q, k, _ = block.attention.qkv(block.attention_residual.norm(x)).chunk(3, -1)
    for head in range(4):
        columns = slice(4 * head, 4 * head + 4)
        scores = q[0, :, columns] @ k[0, :, columns].T / math.sqrt(4)
        is_future = torch.ones_like(scores, dtype=torch.bool).triu(1)
        expected = torch.softmax(scores.masked_fill(is_future, -math.inf), -1)
        torch.testing.assert_close(to_tensor(maps.maps[head]), expected, atol=1e-6, rtol=1e-5)


def test_layers_and_heads_are_counted_from_1():
    task = language_task(CHARACTERS)
    maps = compute_attention_maps(task, TEXT, layers=[2], heads=[1, 4])
    assert [m.name for m in maps.maps] == ["layer 2, head 1", "layer 2, head 4"]
    assert [(m.index.layer, m.index.head) for m in maps.maps] == [(2, 1), (2, 4)]
    with pytest.raises(UserError, match="layer 3: this model has 2"):
        compute_attention_maps(task, TEXT, layers=[3])
    with pytest.raises(UserError, match="head 0: this model has 4"):
        compute_attention_maps(task, TEXT, heads=[0])


def test_maps_of_a_classifier():
    task = classification_task(["the", "film", "was", "not", "bad"], layers=1)
    maps = compute_attention_maps(task, "The film, not bad")
    assert list(maps.rows) == ["The", "film", ",", "not", "bad"]
    assert len(maps.maps) == 2
    assert sum(maps.maps[0].weights[0]) == pytest.approx(1, abs=1e-5)
    assert maps.maps[0].weights[0][4] > 0  # a classifier has no causal mask


def test_models_without_maps_are_refused():
    with pytest.raises(UserError, match="no attention"):
        compute_attention_maps(recurrent_language_task(TEXT), TEXT)
    with pytest.raises(UserError, match="an empty text"):
        compute_attention_maps(language_task(CHARACTERS), "")
    with pytest.raises(UserError, match="a classifier or language model"):
        compute_attention_maps(object(), TEXT)


def test_long_text_is_truncated_and_rendered():
    maps = compute_attention_maps(language_task(CHARACTERS, layers=1, heads=2), TEXT * 40)
    assert len(maps.rows) == 512
    assert maps.truncated_characters == len(TEXT) * 40 - 512
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
    task = language_task(CHARACTERS, positions="learned", max_positions=8)
    maps = compute_attention_maps(task, TEXT)
    assert len(maps.rows) == 8
    assert maps.truncated_characters == len(TEXT) - 8


def test_byte_pairs_of_one_character_have_its_text():
    tokenizer = BytePairTokenizer.train([TEXT * 20], vocab_size=262)
    maps = compute_attention_maps(language_task(tokenizer), TEXT + "🙂")
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
