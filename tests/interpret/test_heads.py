"""Heads as problems: every number against the formula in NumPy, from the weights by hand."""

import math

import numpy as np
import pytest
import torch
from heads_by_hand import STEPS, agrees, by_hand, inputs, shaken

from workings.config import build
from workings.data import CharacterTokenizer, WordTokenizer
from workings.errors import UserError
from workings.interpret import heads
from workings.interpret.heads import problem_from_head, read_head
from workings.models.classifiers import build_classifier
from workings.models.language import build_language_model
from workings.models.translation import START, build_translator
from workings.problems import Problem
from workings.recipes import ClassificationRecipe, LanguageRecipe, TranslationRecipe
from workings.tasks.classification import Classification
from workings.tasks.language_modeling import LanguageModeling
from workings.tasks.translation import TokenizerPair, Translation, collate_sources

TEXT = "to be, or not"
SOURCE, TARGET = "the cat sat", "le chat le chat"
CHARACTERS = CharacterTokenizer.train([TEXT])
LANGUAGE = {
    "pre": {"norm": "pre", "positions": "sinusoidal"},
    "post": {"norm": "post", "positions": "learned", "max_positions": 64},
    "rotary": {"norm": "pre", "positions": "rotary"},
    "grouped": {"norm": "post", "positions": "sinusoidal", "kv_heads": 2},
    "grouped, rotary": {"norm": "pre", "positions": "rotary", "kv_heads": 1},
}


def language(**table):
    table = {"kind": "transformer", "d_model": 16, "layers": 2, "heads": 4, **table}
    recipe = build(LanguageRecipe, {"model": table, "data": {"context_length": 8}})
    torch.manual_seed(0)
    return LanguageModeling(
        recipe, CHARACTERS, shaken(build_language_model(table, len(CHARACTERS)))
    )


def classifier(longest=8, **table):
    table = {"kind": "transformer", "d_model": 8, "heads": 2, "layers": 2, "d_ff": 16, **table}
    recipe = build(ClassificationRecipe, {"model": table, "data": {"max_length": longest}})
    words = WordTokenizer(["the", "cat", "sat", "chat"])
    return Classification(recipe, words, ("a", "b"), shaken(build_classifier(table, len(words), 2)))


def translator(**table):
    table = {"kind": "transformer", "d_model": 12, "heads": 3, "layers": 2, "d_ff": 16, **table}
    recipe = build(TranslationRecipe, {"model": table, "tokenizer": {"kind": "words"}})
    words = WordTokenizer(["the", "cat", "sat", "le", "chat"], with_eos=True)
    torch.manual_seed(0)
    model = shaken(build_translator({**table, "share_embeddings": False}, len(words), len(words)))
    return Translation(recipe, TokenizerPair(words, words), model.eval())


def read_text(task):
    task.model.forward_features(torch.tensor([task.tokenizer.encode(TEXT)]), None)


@pytest.mark.parametrize("name", LANGUAGE)
@pytest.mark.parametrize("layer", [1, 2])
def test_language_models(name, layer):
    task, path = language(**LANGUAGE[name]), f"blocks.{layer - 1}.attention"
    (x,) = inputs(task, path, read_text)
    # Where positions turn queries and keys, these are given as the model has them, in 32 bits.
    atol = 1e-5 if "rotary" in name else 1e-9
    for head in (1, 2, 3, 4):
        found = read_head(task, TEXT, layer, head)
        expected = by_hand(task.model.get_submodule(path), head, x, causal=True)
        agrees(found, expected, atol)
        assert found.problem.setting.causal
        assert found.problem.tokens == list(TEXT.replace(" ", "␣"))
        assert ("Q" in found.given) == ("W_Q" not in found.given) == ("rotary" in name)
        assert "W_V" in found.given


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_x_is_after_a_norm_that_comes_first(norm):
    task = language(norm=norm, positions="sinusoidal")
    model, ids = task.model, CHARACTERS.encode(TEXT)
    place, column = np.arange(len(ids))[:, None], np.arange(16)
    angles = place / 10_000 ** ((column - column % 2) / 16)
    x = model.embedding.weight.detach().double().numpy()[ids]
    x = x + np.where(column % 2 == 0, np.sin(angles), np.cos(angles))
    if norm == "pre":
        weights = {k: v.double().numpy() for k, v in model.blocks[0].state_dict().items()}
        x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
        gain, shift = (weights[f"attention_residual.norm.{name}"] for name in ("gamma", "beta"))
        x = x * gain + shift
    found = problem_from_head(task, TEXT, 1, 2)
    np.testing.assert_allclose(found.given["X"].mid, x, rtol=0, atol=2e-6)


@pytest.mark.parametrize(("padding", "count"), [("masked", 3), ("unmasked", 8), ("left", 8)])
def test_classifiers_look_at_padding_where_it_counts(padding, count):
    task = classifier(padding=padding)
    ids = task.encode(SOURCE)
    (x,) = inputs(task, "blocks.1.attention", lambda task: task.compute_logits([ids]))
    found = read_head(task, SOURCE, 2, 2)
    assert len(x) == count
    agrees(found, by_hand(task.model.blocks[1].attention, 2, x))
    words, padded = ["the", "cat", "sat"], ["<pad>"] * (count - 3)
    assert found.problem.tokens == (padded + words if padding == "left" else words + padded)
    assert found.problem.setting.mask is None


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("part", ["encoder", "decoder", "cross"])
def test_translators(norm, part):
    task = translator(norm=norm)
    words = task.tokenizers
    source = collate_sources([words.encode_source(SOURCE)], task.model)
    target = torch.tensor([[START, *words.encode_target(TARGET)]])
    stack = "encoder" if part == "encoder" else "decoder"
    path = f"{stack}.1.{'cross_attention' if part == 'cross' else 'attention'}"
    x = inputs(task, path, lambda task: task.model.forward_features(source, target))
    layer = task.model.get_submodule(path)
    for head in (1, 3):
        found = read_head(task, SOURCE, 2, head, part=part, target=TARGET)
        agrees(found, by_hand(layer, head, *x, causal=part == "decoder"))
    read, wrote = ["the", "cat", "sat", "</s>"], ["<s>", "le", "chat", "le", "chat"]
    assert found.problem.tokens == (read if part == "encoder" else wrote)
    assert found.problem.context_tokens == (read if part == "cross" else None)
    assert found.problem.exact_matrices["weights"].shape == (len(x[0]), len(x[-1]))


def test_a_translator_shows_its_own_translation_and_cross_attention_if_nothing_is_said():
    task = translator()
    own = next(task.translate_best([SOURCE]))
    found = problem_from_head(task, SOURCE, 1, 1)
    assert found.tokens == ["<s>", *task.tokenizers.target.tokenize(own)]
    assert found.context_tokens == ["the", "cat", "sat", "</s>"]
    assert f"{SOURCE} → {own}"[:50] in found.title  # which may cut a long one


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("task", [language(**LANGUAGE["pre"]), language(**LANGUAGE["rotary"])])
def test_a_cell_is_its_largest_terms_and_the_remainder(task, step):
    head = read_head(task, TEXT, 2, 3, top=2)
    row, column = (5, 2) if step not in ("Q", "K", "V", "mixed") else (5, 4)
    cell = head.cell(step, row, column)
    expected = head.problem.solve()[step][row - 1, column - 1]
    assert cell.value == pytest.approx(expected, abs=1e-12)
    if cell.lines:
        *terms, total = [line.numbers[-1] for line in cell.lines]
        assert sum(terms) == pytest.approx(total, abs=1e-12)
        assert total == pytest.approx(1.0 if step == "weights" else cell.value)
    assert [one.source for one in cell.model_values] == [
        "the model, traced",
        *["the model, fused kernel"] * (step == "mixed"),
    ]
    for one in cell.model_values:
        assert one.difference == abs(one.value - cell.value) < 1e-5


def test_the_largest_products_come_first():
    task = language(**LANGUAGE["pre"])
    head = read_head(task, TEXT, 1, 1, top=3)
    x, w = head.given["X"].astype(float), head.given["W_Q"].astype(float)
    products = x[4] * w[:, 1]
    order = np.argsort(-np.abs(products))
    lines = head.cell("Q", 5, 2).lines
    assert [int(line.name) for line in lines[:3]] == (order[:3] + 1).tolist()
    assert lines[3].name == "+ remainder of the other 13"
    assert lines[3].numbers[-1] == pytest.approx(products[order[3:]].sum())
    assert lines[4].numbers[-1] == pytest.approx(float(head.given["b_Q"][0, 1]))


def test_a_weight_stands_among_its_strongest_rivals():
    head = read_head(language(**LANGUAGE["pre"]), TEXT, 2, 1, top=3)
    masked = head.problem.solve()["masked"]
    row = 8
    weakest = int(np.argmin(masked[row - 1, :row]))
    cell = head.cell("weights", row, weakest + 1)
    powers = np.exp(masked[row - 1, :row])
    *shown, rest, hidden, total = cell.lines
    rivals = np.sort(np.delete(masked[row - 1, :row], weakest))[::-1][:3]
    assert [line.numbers[0] for line in shown] == pytest.approx([*rivals, masked[row - 1, weakest]])
    assert [line.is_marked for line in shown] == [False, False, False, True]
    assert rest.name == "+ remainder of the other 4"
    assert hidden.name == f"hidden by the mask: {len(TEXT) - row}"
    assert total.numbers[1] == pytest.approx(powers.sum())
    assert cell.value == pytest.approx(powers[weakest] / powers.sum())
    seen = TEXT[weakest].replace(" ", "␣")
    assert cell.description == f"how much 8 “o” looks at {weakest + 1} “{seen}”"
    forbidden = head.cell("weights", 2, 9)
    assert forbidden.value == 0
    assert forbidden.model_values[0].difference == 0


def test_a_head_makes_a_problem_file_that_claims_the_models_numbers(monkeypatch):
    task = language(**LANGUAGE["rotary"])
    for projected in (False, True):
        head = read_head(task, TEXT, 2, 2, projected=projected)
        again = Problem.from_toml(head.to_file())
        assert set(again.given) >= ({"Q", "K", "V"} if projected else {"X", "W_V", "b_V", "Q", "K"})
        np.testing.assert_allclose(again.solve()["mixed"], head.problem.solve()["mixed"], atol=1e-7)
        report = again.check()
        assert report.verdict in ("right", "rounded")
        assert report.counts["right"] > 100
        assert report.counts["wrong"] == 0
    with pytest.raises(UserError, match="39 tokens: a head of at most 32 makes a problem file"):
        read_head(task, TEXT * 3, 1, 1).to_file()
    monkeypatch.setattr(heads, "MAX_SIDE", 15)
    with pytest.raises(UserError, match="vectors of 16 numbers, and a problem has at most 15"):
        read_head(task, TEXT, 1, 1)
    assert read_head(task, TEXT, 1, 1, projected=True).cell("mixed", 1, 1).value
    monkeypatch.undo()
    monkeypatch.setattr(heads, "MAX_PROBLEM_BYTES", 1000)
    with pytest.raises(UserError, match=r"would have 0\.\d MB.*starts from Q, K and V"):
        read_head(task, TEXT, 1, 1).to_file()


def test_a_file_of_a_cross_attention_is_checked_too():
    head = read_head(translator(), SOURCE, 1, 2, target="le “chat”\x1b <b>")
    again = Problem.from_toml(head.to_file())
    assert again.context_tokens == head.problem.context_tokens
    assert again.check().counts["wrong"] == 0


def test_what_cannot_be_asked():
    task = language(**LANGUAGE["post"])
    asked = {
        "layer 3: this model has 2": lambda: read_head(task, TEXT, 3, 1),
        "head 0: this model has 4": lambda: read_head(task, TEXT, 1, 0),
        "scores is 13×13: it has no cell 14,1": lambda: read_head(task, TEXT, 1, 1).cell(
            "scores", 14, 1
        ),
        "did you mean 'weights'": lambda: read_head(task, TEXT, 1, 1).cell("wieghts", 1, 1),
        "it must be at least 1": lambda: read_head(task, TEXT, 1, 1, top=0).cell("scores", 1, 1),
        "an empty text": lambda: read_head(task, "", 1, 1),
        "65 tokens: a head is written out for 64": lambda: read_head(task, TEXT * 5, 1, 1),
        "only decoder": lambda: read_head(task, TEXT, 1, 1, part="cross"),
        "only encoder": lambda: read_head(classifier(), SOURCE, 1, 1, part="decoder"),
        "expected one of encoder": lambda: read_head(task, TEXT, 1, 1, part="zebra"),
        "a target is for translators": lambda: read_head(task, TEXT, 1, 1, target="x"),
        "an empty text:": lambda: read_head(translator(), " ", 1, 1),
        "a target of 600 tokens": lambda: read_head(translator(), SOURCE, 1, 1, target="le " * 600),
        "600 tokens": lambda: read_head(translator(), "cat " * 600, 1, 1),
        "language models, translators, captioners": lambda: read_head(object(), TEXT, 1, 1),
    }
    for said, ask in asked.items():
        with pytest.raises(UserError, match=said) as error:
            ask()
        assert "\n" not in str(error.value)


def test_who_has_no_heads_is_told():
    recurrent = {"kind": "recurrent", "d_model": 4, "hidden_size": 4}
    recipe = build(LanguageRecipe, {"model": recurrent})
    task = LanguageModeling(recipe, CHARACTERS, build_language_model(recurrent, len(CHARACTERS)))
    recipe = build(TranslationRecipe, {"model": recurrent})
    model = build_translator(recurrent, 9, 9)
    other = Translation(recipe, translator().tokenizers, model)
    recipe = build(ClassificationRecipe, {"model": recurrent})
    third = Classification(
        recipe, WordTokenizer(["a"]), ("a", "b"), build_classifier(recurrent, 4, 2)
    )
    for one in (task, other, third):
        with pytest.raises(UserError, match="no attention"):
            read_head(one, TEXT, 1, 1)


def test_a_model_that_hid_something_else_is_found_out():
    head = read_head(language(**LANGUAGE["pre"]), TEXT, 1, 1)
    head.traced_steps["masked"][3, 1] = -math.inf
    assert head.max_differences()["masked"] == math.inf
    assert head.cell("masked", 4, 2).model_values[0].difference == math.inf
    assert head.cell("masked", 4, 9).model_values[0].difference == 0


def test_the_model_goes_on_as_it_was():
    task = language()
    task.model.train()
    read_head(task, TEXT, 1, 1)
    assert task.model.training


def test_a_head_shows_itself():
    head = read_head(language(**LANGUAGE["pre"], d_model=32), TEXT, 1, 1)
    said = head.text(width=90)
    assert max(map(len, said.splitlines())) <= 90
    assert "weights = softmax(masked)" in said
    assert "Too large to be shown: W_Q, W_K, W_V." in " ".join(said.split())
    assert "W_Q  32×8" not in said
    assert "b_Q  1×8" not in said
    small = read_head(classifier(), SOURCE, 1, 1)
    assert "W_Q  8×4" in small.text(width=90)
    page = head.html()
    assert "what its fused kernel mixes" in page
    assert "mixed[13,8] = " in page
    told = head.to_dict()
    assert max(told["differences"].values()) < 1e-5
    assert [step["step"] for step in told["steps"]] == list(STEPS)
