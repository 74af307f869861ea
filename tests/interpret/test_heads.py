"""Heads as problems: every number compared with the formula in NumPy."""

import math

import numpy as np
import pytest
import torch
from numpy_heads import STEPS, assert_head_equals, capture_inputs, compute_head
from small_tasks import (
    captioning_task,
    classification_task,
    custom_task,
    language_task,
    recurrent_language_task,
    translation_task,
)

from workings.data import CharacterTokenizer
from workings.errors import UserError
from workings.interpret import model_problem
from workings.interpret.heads import problem_from_head, read_head, trace_head
from workings.models.seq2seq import START
from workings.problems import Problem
from workings.tasks.captioning import collate_pictures
from workings.tasks.translation import collate_sources

TEXT = "to be, or not"
SOURCE, TARGET = "the cat sat", "le chat le chat"
WORDS = ["the", "cat", "sat", "le", "chat"]
CHARACTERS = CharacterTokenizer.train([TEXT])
MODELS = {
    "pre": {"norm": "pre", "positions": "sinusoidal"},
    "post": {"norm": "post", "positions": "learned", "max_positions": 64},
    "rotary": {"norm": "pre", "positions": "rotary"},
    "grouped": {"norm": "post", "positions": "sinusoidal", "kv_heads": 2},
    "grouped, rotary": {"norm": "pre", "positions": "rotary", "kv_heads": 1},
}
IMAGE = np.random.default_rng(1).integers(0, 256, (16, 16, 3), np.uint8)


def language(name="pre", **table):
    return language_task(CHARACTERS, **MODELS[name], **table)


def run_on_text(task):
    task.model.forward_features(torch.tensor([task.tokenizer.encode(TEXT)]), None)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("layer", [1, 2])
def test_heads_of_language_models(name, layer):
    task, path = language(name), f"blocks.{layer - 1}.attention"
    (x,) = capture_inputs(task, path, run_on_text)
    # With rotary positions Q and K are given as the model has them, in float32.
    atol = 1e-5 if "rotary" in name else 1e-9
    for head in (1, 2, 3, 4):
        problem = read_head(task, TEXT, layer, head)
        expected = compute_head(task.model.get_submodule(path), head, x, causal=True)
        assert_head_equals(problem, expected, atol)
        assert problem.problem.setting.causal
        assert problem.problem.tokens == list(TEXT.replace(" ", "␣"))
        assert ("Q" in problem.given) == ("W_Q" not in problem.given) == ("rotary" in name)
        assert "W_V" in problem.given


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_x_is_after_the_norm_of_a_pre_norm_block(norm):
    task = language_task(CHARACTERS, norm=norm, positions="sinusoidal")
    model, ids = task.model, CHARACTERS.encode(TEXT)
    position, column = np.arange(len(ids))[:, None], np.arange(16)
    angles = position / 10_000 ** ((column - column % 2) / 16)
    x = model.embedding.weight.detach().double().numpy()[ids]
    x = x + np.where(column % 2 == 0, np.sin(angles), np.cos(angles))
    if norm == "pre":
        weights = {k: v.double().numpy() for k, v in model.blocks[0].state_dict().items()}
        x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
        gain, shift = (weights[f"attention_residual.norm.{name}"] for name in ("gamma", "beta"))
        x = x * gain + shift
    problem = problem_from_head(task, TEXT, 1, 2)
    np.testing.assert_allclose(problem.given["X"].mid, x, rtol=0, atol=2e-6)


@pytest.mark.parametrize(("padding", "count"), [("masked", 3), ("unmasked", 8), ("left", 8)])
def test_heads_of_classifiers_include_unmasked_padding(padding, count):
    task = classification_task(WORDS, padding=padding)
    ids = task.encode(SOURCE)
    (x,) = capture_inputs(task, "blocks.1.attention", lambda t: t.compute_logits([ids]))
    head = read_head(task, SOURCE, 2, 2)
    assert len(x) == count
    assert_head_equals(head, compute_head(task.model.blocks[1].attention, 2, x))
    words, padded = ["the", "cat", "sat"], ["<pad>"] * (count - 3)
    assert head.problem.tokens == (padded + words if padding == "left" else words + padded)
    assert head.problem.setting.mask is None


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("part", ["encoder", "decoder", "cross"])
def test_heads_of_translators(norm, part):
    task = translation_task(WORDS, norm=norm)
    tokenizers = task.tokenizers
    source = collate_sources([tokenizers.encode_source(SOURCE)], task.model)
    target = torch.tensor([[START, *tokenizers.encode_target(TARGET)]])
    stack = "encoder" if part == "encoder" else "decoder"
    path = f"{stack}.1.{'cross_attention' if part == 'cross' else 'attention'}"
    x = capture_inputs(task, path, lambda t: t.model.forward_features(source, target))
    layer = task.model.get_submodule(path)
    for number in (1, 3):
        head = read_head(task, SOURCE, 2, number, part=part, target=TARGET)
        assert_head_equals(head, compute_head(layer, number, *x, causal=part == "decoder"))
    read, inputs = ["the", "cat", "sat", "</s>"], ["<s>", "le", "chat", "le", "chat"]
    assert head.problem.tokens == (read if part == "encoder" else inputs)
    assert head.problem.context_tokens == (read if part == "cross" else None)
    assert head.problem.exact_matrices["weights"].shape == (len(x[0]), len(x[-1]))


def test_default_is_cross_attention_of_the_models_translation():
    task = translation_task(WORDS)
    translation = next(task.translate_best([SOURCE]))
    problem = problem_from_head(task, SOURCE, 1, 1)
    assert problem.tokens == ["<s>", *task.tokenizers.target.tokenize(translation)]
    assert problem.context_tokens == ["the", "cat", "sat", "</s>"]
    assert problem.title.startswith("Layer 1, head 1 of the decoder's cross-attention: the cat sat")
    assert f"{SOURCE} → {translation}"[:50] in problem.title  # long texts are truncated


@pytest.mark.parametrize("part", ["cross", "decoder"])
def test_heads_of_captioners(part):
    task, caption = captioning_task(), "a red square"
    source = collate_pictures([IMAGE], task.model)
    ids = torch.tensor([[START, *task.tokenizer.encode(caption)]])
    path = f"decoder.1.{'cross_attention' if part == 'cross' else 'attention'}"
    x = capture_inputs(task, path, lambda t: t.model.forward_features(source, ids))
    layer = task.model.get_submodule(path)
    for number in (1, 2, 3):
        head = read_head(task, IMAGE, 2, number, part=part, target=caption)
        assert_head_equals(head, compute_head(layer, number, *x, causal=part == "decoder"))
    if part == "cross":
        assert head.problem.context_tokens[:2] == ["(1,1)", "(1,2)"]


def test_one_trace_makes_both_problems():
    trace = trace_head(language("pre"), TEXT, 2, 3)
    full, projected = trace.to_problem(), trace.to_problem(projected=True)
    assert set(projected.given) == {"Q", "K", "V"}
    for step in ("scores", "weights", "mixed"):
        np.testing.assert_allclose(
            full.problem.solve()[step], projected.problem.solve()[step], atol=1e-5
        )


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", ["pre", "rotary"])
def test_cell_is_the_sum_of_its_largest_terms_and_the_remainder(name, step):
    head = read_head(language(name), TEXT, 2, 3, top=2)
    row, column = (5, 2) if step not in ("Q", "K", "V", "mixed") else (5, 4)
    cell = head.cell(step, row, column)
    expected = head.problem.solve()[step][row - 1, column - 1]
    assert cell.value == pytest.approx(expected, abs=1e-12)
    if cell.lines:
        *terms, total = [line.numbers[-1] for line in cell.lines]
        assert sum(terms) == pytest.approx(total, abs=1e-12)
        assert total == pytest.approx(1.0 if step == "weights" else cell.value)
    assert [value.source for value in cell.model_values] == [
        "the model, traced",
        *["the model, fused kernel"] * (step == "mixed"),
    ]
    for value in cell.model_values:
        assert value.difference == abs(value.value - cell.value) < 1e-5


def test_largest_products_come_first():
    head = read_head(language(), TEXT, 1, 1, top=3)
    x, w = head.given["X"].astype(float), head.given["W_Q"].astype(float)
    products = x[4] * w[:, 1]
    order = np.argsort(-np.abs(products))
    lines = head.cell("Q", 5, 2).lines
    assert [int(line.name) for line in lines[:3]] == (order[:3] + 1).tolist()
    assert lines[3].name == "+ remainder of the other 13"
    assert lines[3].numbers[-1] == pytest.approx(products[order[3:]].sum())
    assert lines[4].numbers[-1] == pytest.approx(float(head.given["b_Q"][0, 1]))


def test_weight_is_listed_with_the_largest_scores_of_its_row():
    head = read_head(language(), TEXT, 2, 1, top=3)
    masked = head.problem.solve()["masked"]
    row = 8
    weakest = int(np.argmin(masked[row - 1, :row]))
    cell = head.cell("weights", row, weakest + 1)
    powers = np.exp(masked[row - 1, :row])
    *terms, rest, hidden, total = cell.lines
    largest = np.sort(np.delete(masked[row - 1, :row], weakest))[::-1][:3]
    assert [line.numbers[0] for line in terms] == pytest.approx(
        [*largest, masked[row - 1, weakest]]
    )
    assert [line.is_marked for line in terms] == [False, False, False, True]
    assert rest.name == "+ remainder of the other 4"
    assert hidden.name == f"hidden by the mask: {len(TEXT) - row}"
    assert total.numbers[1] == pytest.approx(powers.sum())
    assert cell.value == pytest.approx(powers[weakest] / powers.sum())
    key = TEXT[weakest].replace(" ", "␣")
    assert cell.description == f"attention weight from 8 “o” to {weakest + 1} “{key}”"
    masked_cell = head.cell("weights", 2, 9)
    assert masked_cell.value == 0
    assert masked_cell.model_values[0].difference == 0


def test_problem_file_claims_the_models_numbers(monkeypatch):
    task = language("rotary")
    for projected in (False, True):
        head = read_head(task, TEXT, 2, 2, projected=projected)
        problem = Problem.from_toml(head.to_file())
        assert set(problem.given) >= (
            {"Q", "K", "V"} if projected else {"X", "W_V", "b_V", "Q", "K"}
        )
        np.testing.assert_allclose(
            problem.solve()["mixed"], head.problem.solve()["mixed"], atol=1e-7
        )
        report = problem.check()
        assert report.verdict in ("right", "rounded")
        assert report.counts["right"] > 100
        assert report.counts["wrong"] == 0
    with pytest.raises(UserError, match="39 tokens: a problem file has at most 32"):
        read_head(task, TEXT * 3, 1, 1).to_file()
    monkeypatch.setattr(model_problem, "MAX_SIDE", 15)
    with pytest.raises(UserError, match="vectors of 16 numbers: a problem has at most 15"):
        read_head(task, TEXT, 1, 1)
    assert read_head(task, TEXT, 1, 1, projected=True).cell("mixed", 1, 1).value
    monkeypatch.undo()
    monkeypatch.setattr(model_problem, "MAX_PROBLEM_BYTES", 1000)
    with pytest.raises(UserError, match=r"would have 0\.\d MB.*starts from Q, K and V"):
        read_head(task, TEXT, 1, 1).to_file()


def test_problem_file_of_cross_attention_is_checked():
    head = read_head(translation_task(WORDS), SOURCE, 1, 2, target="le “chat”\x1b <b>")
    problem = Problem.from_toml(head.to_file())
    assert problem.context_tokens == head.problem.context_tokens
    assert problem.check().counts["wrong"] == 0


def test_invalid_requests_are_refused():
    task, translator = language("post"), translation_task(WORDS)
    requests = {
        "layer 3: this model has 2": lambda: read_head(task, TEXT, 3, 1),
        "head 0: this model has 4": lambda: read_head(task, TEXT, 1, 0),
        "scores is 13×13: it has no cell 14,1": lambda: read_head(task, TEXT, 1, 1).cell(
            "scores", 14, 1
        ),
        "did you mean 'weights'": lambda: read_head(task, TEXT, 1, 1).cell("wieghts", 1, 1),
        "top = 0: it must be at least 1": lambda: read_head(task, TEXT, 1, 1, top=0).cell(
            "scores", 1, 1
        ),
        "an empty text": lambda: read_head(task, "", 1, 1),
        "65 tokens: attention is shown for at most 64": lambda: read_head(task, TEXT * 5, 1, 1),
        "only decoder": lambda: read_head(task, TEXT, 1, 1, part="cross"),
        "only encoder": lambda: read_head(classification_task(WORDS), SOURCE, 1, 1, part="decoder"),
        "expected one of encoder": lambda: read_head(task, TEXT, 1, 1, part="zebra"),
        "only translators and captioners": lambda: read_head(task, TEXT, 1, 1, target="x"),
        "an empty text:": lambda: read_head(translator, " ", 1, 1),
        "a target of 600 tokens": lambda: read_head(translator, SOURCE, 1, 1, target="le " * 600),
        "600 tokens": lambda: read_head(translator, "cat " * 600, 1, 1),
        "a custom model has no attention": lambda: read_head(custom_task(), TEXT, 1, 1),
    }
    for message, request in requests.items():
        with pytest.raises(UserError, match=message) as error:
            request()
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("task", "model_input"),
    [
        (recurrent_language_task(TEXT), TEXT),
        (translation_task(WORDS, kind="recurrent"), SOURCE),
        (classification_task(WORDS, kind="recurrent"), SOURCE),
        (captioning_task("recurrent"), IMAGE),
    ],
)
def test_model_without_heads_is_refused(task, model_input):
    with pytest.raises(UserError, match=r"no attention.*its kind is not transformer"):
        read_head(task, model_input, 1, 1)


def test_different_mask_of_the_model_is_an_infinite_difference():
    head = read_head(language(), TEXT, 1, 1)
    head.model_steps["masked"][3, 1] = -math.inf
    assert head.max_differences()["masked"] == math.inf
    assert head.cell("masked", 4, 2).model_values[0].difference == math.inf
    assert head.cell("masked", 4, 9).model_values[0].difference == 0


def test_training_mode_is_restored():
    task = language()
    task.model.train()
    read_head(task, TEXT, 1, 1)
    assert task.model.training


def test_head_is_rendered_as_text_page_and_json():
    head = read_head(language(d_model=32), TEXT, 1, 1)
    text = head.text(width=90)
    assert max(map(len, text.splitlines())) <= 90
    assert "weights = softmax(masked)" in text
    assert "Too large to show: W_Q, W_K, W_V." in " ".join(text.split())
    assert "W_Q  32×8" not in text
    assert "b_Q  1×8" not in text
    small = read_head(classification_task(WORDS), SOURCE, 1, 1)
    assert "W_Q  8×4" in small.text(width=90)
    page = head.html()
    assert "the output of its fused kernel" in page
    assert "mixed[13,8] = " in page
    table = head.to_dict()
    assert max(table["differences"].values()) < 1e-5
    assert [step["step"] for step in table["steps"]] == list(STEPS)
