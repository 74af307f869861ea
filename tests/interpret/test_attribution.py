"""Attribution: compared with brute force, finite differences, and sums that are known."""

from dataclasses import replace

import pytest
import torch

from workings.config import build
from workings.data import BytePairTokenizer, CharacterTokenizer, WordTokenizer
from workings.errors import UserError
from workings.interpret.attention import compute_attention_maps
from workings.interpret.attribution import METHODS, explain
from workings.models.classifiers import build_classifier
from workings.recipes import ClassificationRecipe
from workings.tasks.classification import Classification
from workings.trace import Trace

VOCABULARY = "the film was good bad not very dull plum and a plot it loved acting"
WORDS = WordTokenizer(VOCABULARY.split())
MODELS = {
    "recurrent": {"cell": "gru", "d_model": 8, "hidden_size": 6, "bidirectional": True},
    "perceptron": {"d_model": 4, "length": 300, "hidden_sizes": [5, 3]},
    "averaged": {"d_model": 4, "pooling": "mean", "hidden_sizes": [5, 3]},
    "convolution": {"d_model": 8, "channels": [6, 4], "kernel": 3, "stride": 2, "hidden_size": 5},
    "flat": {"d_model": 4, "channels": [3], "kernel": 3, "pooling": "flatten", "length": 300},
    "transformer": {"d_model": 8, "heads": 2, "layers": 2, "d_ff": 16},
    "ngrams": {"min_count": 1},
}
KINDS = list(MODELS)
NEURAL = [kind for kind in KINDS if kind != "ngrams"]


def build_task(kind, tokenizer=WORDS, labels=("yes", "no", "perhaps"), max_length=512, **changes):
    """Return a task with a random model."""
    kinds = {"flat": "convolution", "averaged": "perceptron"}
    table = {"kind": kinds.get(kind, kind), **MODELS[kind], **changes}
    recipe = build(ClassificationRecipe, {"data": {"max_length": max_length}, "model": table})
    torch.manual_seed(0)
    model = build_classifier(recipe.model, len(tokenizer), len(labels))
    if kind == "ngrams":
        texts = torch.randint(3, len(tokenizer), (60, 12)).tolist()
        model.prepare(texts, [k % len(labels) for k in range(60)])
        torch.nn.init.normal_(model.weights)
        torch.nn.init.normal_(model.bias)
    return Classification(recipe, tokenizer, labels, model)


def random_text(count):
    torch.manual_seed(0)
    return " ".join(WORDS.id_to_token(i) for i in torch.randint(3, len(WORDS), (count,)).tolist())


@torch.no_grad()
def compute_margin(task, attribution, ids):
    logits = task.compute_logits([ids])[0]
    best, second = map(task.labels.index, (attribution.label, attribution.runner_up))
    return float(logits[best] - logits[second])


# -- occlusion -------------------------------------------------------------------------------------


@pytest.mark.parametrize("padding", ["masked", "unmasked"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [70, 205])
def test_occlusion_matches_one_removal_at_a_time(kind, padding, count):
    changes = {} if kind == "ngrams" else {"padding": padding}
    task = build_task(kind, max_length=450, **changes)
    attribution = explain(task, random_text(count), methods=["occlusion"])
    result, ids = attribution["occlusion"], task.encode_with_spans(attribution.input_text)[0]
    assert result.window == -(-len(ids) // 200)
    keeps_positions = kind in ("perceptron", "convolution", "flat")
    if keeps_positions and padding == "masked":
        task.model.embedding.weight.data[0] = 0  # masked padding is zero
    expected = []
    for start in range(0, len(ids), result.window):
        removed = ids[start : start + result.window]
        blanks = [0] * len(removed) * keeps_positions
        without = ids[:start] + blanks + ids[start + len(removed) :]
        fall = attribution.margin - compute_margin(task, attribution, without)
        expected += [fall / len(removed)] * len(removed)
    assert result.values == pytest.approx(expected, abs=2e-5)
    assert max(map(abs, result.values)) > 1e-4


def test_description_names_the_window():
    task = build_task("recurrent")
    assert "a token is removed" in explain(task, random_text(200))["occlusion"].description
    result = explain(task, random_text(201))["occlusion"]
    assert "2 adjacent tokens are removed, shared equally" in result.description
    assert result.values[::2] == [*result.values[1::2], result.values[-1]]
    assert "blanked" in explain(build_task("perceptron"), random_text(9))["occlusion"].description


# -- gradients -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "padding"),
    [(kind, "masked") for kind in NEURAL] + [("recurrent", "left"), ("transformer", "left")],
)
def test_gradient_matches_finite_differences(kind, padding):
    task = (
        build_task(kind, max_length=20, padding=padding) if padding == "left" else build_task(kind)
    )
    task.model.double()
    attribution = explain(task, random_text(6), methods=["gradient"])
    ids = task.encode_with_spans(attribution.input_text)[0]
    for k, value in enumerate(attribution["gradient"].values):
        margins = []
        for factor in (1.001, 0.999):
            width = 20 if padding == "left" else task.model.fixed_length or len(ids)
            scale = torch.ones(1, width, 1)
            scale[0, k + (padding == "left") * (width - len(ids))] = factor
            with Trace(only=(), scale={"embedded": scale}):
                margins.append(compute_margin(task, attribution, ids))
        assert value == pytest.approx((margins[0] - margins[1]) / 0.002, abs=1e-4)


@pytest.mark.parametrize("text", ["", "good", "it it it it", random_text(40), "zebra it was zebra"])
@pytest.mark.parametrize("max_n", [1, 2, 3])
def test_shares_of_ngrams_and_the_bias_sum_to_the_margin(text, max_n):
    task = build_task("ngrams", max_n=max_n)
    attribution = explain(task, text, methods=["gradient"])
    best, second = map(task.labels.index, (attribution.label, attribution.runner_up))
    bias = task.model.bias.tolist()
    total = sum(attribution["gradient"].values) + bias[best] - bias[second]
    assert total == pytest.approx(attribution.margin, abs=1e-5)


def test_occlusion_equals_gradient_for_unigrams():
    task = build_task("ngrams", max_n=1)
    attribution = explain(task, "the film was not very good and a dull plot")
    gradient = attribution["gradient"].values
    assert attribution["occlusion"].values == pytest.approx(gradient, abs=1e-5)


# -- attention -------------------------------------------------------------------------------------


@pytest.mark.parametrize("pooling", ["mean", "max", "last"])
def test_attention_is_that_of_the_pooled_tokens(pooling):
    task = build_task("transformer", pooling=pooling)
    attribution = explain(task, "the film was very good")["attention"]
    with Trace(only="*.weights") as trace:
        task.model.eval()(torch.tensor([WORDS.encode("the film was very good")]), torch.tensor([5]))
    weights = [w[0].mean(0) for w in trace.matching("*").values()]
    expected = [w[-1] if pooling == "last" else w.mean(0) for w in weights]
    assert attribution.layers == [pytest.approx(layer.tolist(), abs=1e-6) for layer in expected]
    assert attribution.values == pytest.approx(torch.stack(expected).mean(0).tolist(), abs=1e-6)
    assert "2 heads and 2 layers" in attribution.description
    assert ("last token" in attribution.description) == (pooling == "last")


def test_attention_skips_padding_on_the_left():
    task = build_task("transformer", max_length=9, padding="left")
    attribution = explain(task, "the film was very good")["attention"]
    row = [0] * 4 + WORDS.encode("the film was very good")
    with Trace(only="*.weights") as trace:
        task.model.eval()(torch.tensor([row]), torch.tensor([9]))
    weights = [w[0].mean(0).mean(0)[4:] for w in trace.matching("*").values()]
    assert attribution.layers == [pytest.approx((w / w.sum()).tolist(), abs=1e-6) for w in weights]
    maps = compute_attention_maps(task, "the film was very good")
    first = next(iter(trace.matching("*").values()))[0, 0, 4:, 4:]
    torch.testing.assert_close(torch.tensor([list(r) for r in maps.maps[0].weights]), first)


@pytest.mark.parametrize("padding", ["masked", "unmasked", "left"])
def test_attention_sums_to_one(padding):
    task = build_task("transformer", max_length=20, padding=padding)
    attribution = explain(task, "the film was very good")["attention"]
    assert sum(attribution.values) == pytest.approx(1)
    assert all(sum(layer) == pytest.approx(1) for layer in attribution.layers)
    assert min(attribution.values) >= 0
    assert ("went to padding" in attribution.description) == (padding != "masked")


# -- a known word ----------------------------------------------------------------------------------


def train_on_plums(task, steps=40):
    """Train a task to predict yes if and only if the text has the word plum."""
    torch.manual_seed(1)
    texts = torch.randint(3, len(WORDS), (96, 8))
    plum = WORDS.encode("plum")[0]
    texts[texts == plum] = plum + 1
    texts[::2].scatter_(1, torch.randint(0, 8, (48, 1)), plum)
    targets = (~(texts == plum).any(1)).long()
    encoded = texts.tolist()
    if task.recipe.model.kind == "ngrams":
        model = build_classifier(task.recipe.model, len(WORDS), 2)
        model.prepare(encoded, targets.tolist())
        task = Classification(task.recipe, WORDS, task.labels, model)
    else:  # all other words have zero embeddings
        vectors = task.model.embedding.weight.requires_grad_(False)
        vectors *= torch.arange(len(WORDS)).unsqueeze(1) == plum
    optimizer = torch.optim.Adam(task.model.parameters(), 0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(task.compute_logits(encoded), targets).backward()
        optimizer.step()
    assert (task.compute_logits(encoded).argmax(1) == targets).float().mean() > 0.9
    optimizer.zero_grad()
    return task


@pytest.mark.parametrize("kind", KINDS)
def test_every_method_finds_the_decisive_word(kind):
    changes = {
        "perceptron": {"length": 8, "hidden_sizes": [32]},
        "averaged": {"hidden_sizes": [32]},
        "flat": {"length": 8, "channels": [8], "kernel": 1, "stride": 1},
        "transformer": {"pooling": "last", "layers": 1, "d_model": 16},
    }.get(kind, {})
    task = train_on_plums(build_task(kind, labels=("yes", "no"), **changes))
    attribution = explain(task, "it was a dull plum and the plot")
    assert attribution.label == "yes"
    methods = ["occlusion", "gradient", *["attention"] * (kind == "transformer")]
    assert [result.method for result in attribution.token_attributions] == methods
    for result in attribution.token_attributions:
        assert result.values.index(max(result.values)) == 4, result.method


# -- all texts and models --------------------------------------------------------------------------

TEXTS = {
    "nothing": "",
    "spaces": " \n\t ",
    "one token": "good",
    "unknown": "zebra quagga",
    "Arabic": "الفيلم كان رائعا",
    "emoji": "👍🏽 the 👨‍👩‍👧 film 🇫🇷",
    "half a character": "good \ud800 film",
    "grows": "İİ was good",
    "long": "the film was " * 80_000,
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_text_can_be_explained(kind, name):
    task = build_task(kind)
    attribution = explain(task, TEXTS[name])
    assert attribution.input_text == TEXTS[name]
    assert attribution.label == max(
        attribution.probabilities, key=attribution.probabilities.__getitem__
    )
    assert sum(attribution.probabilities.values()) == pytest.approx(1)
    for result in attribution.token_attributions:
        assert len(result.values) == len(attribution.spans)
        assert torch.tensor(result.values).isfinite().all()
        assert torch.tensor(result.values).abs().max() < 1e4 if result.values else True
    assert attribution.html()
    assert attribution.text(width=60, color=True)
    if name == "unknown":
        assert attribution.unknown_tokens == [0, 1]
    if name == "long":
        read = task.model.fixed_length or 512
        assert len(attribution.spans) == read
        assert (
            attribution.input_text[attribution.spans[-1][1] :]
            == attribution.input_text[
                len(attribution.input_text) - attribution.truncated_characters :
            ]
        )
    else:
        assert attribution.truncated_characters == 0


def test_long_text_of_one_token_is_truncated():
    attribution = explain(build_task("recurrent", max_length=10), "x" * 1000)
    assert attribution.spans == [(0, 400)]
    assert attribution.truncated_characters == 600


@pytest.mark.parametrize("kind", ["recurrent", "transformer", "ngrams"])
def test_subwords_and_characters(kind):
    for tokenizer in (
        CharacterTokenizer.train(["low lower 🙂"]),
        BytePairTokenizer.train(["low lower"], vocab_size=270),
    ):
        attribution = explain(build_task(kind, tokenizer), "low 🙂 lower")
        assert {attribution.input_text[a:b].strip() for a, b in attribution.spans} >= {"🙂"}
        assert all(
            len(result.values) == len(attribution.spans)
            for result in attribution.token_attributions
        )
        assert "🙂" in attribution.html()


@pytest.mark.parametrize("kind", KINDS)
def test_model_is_left_unchanged(kind):
    task = build_task(kind, dropout=0.5)
    task.model.train()
    before = {name: p.clone() for name, p in task.model.state_dict().items()}
    first, second = explain(task, random_text(12)), explain(task, random_text(12))
    assert first == second  # without dropout
    assert task.model.training
    assert all(p.grad is None for p in task.model.parameters())
    assert all(torch.equal(before[name], p) for name, p in task.model.state_dict().items())


def test_frozen_models_have_gradients():
    task = build_task("recurrent")
    expected = explain(task, random_text(5))
    task.model.requires_grad_(False)
    assert explain(task, random_text(5)) == expected


# -- methods ---------------------------------------------------------------------------------------


def test_methods_are_selected_by_name():
    task = build_task("transformer")
    attribution = explain(task, "good", methods=["attention", "occlusion", "attention"])
    assert [result.method for result in attribution.token_attributions] == [
        "attention",
        "occlusion",
    ]
    assert [r.method for r in explain(task, "good").token_attributions] == list(METHODS)


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        (["oclusion"], "did you mean 'occlusion'"),
        (["lime"], "expected one of occlusion, gradient, attention"),
        ([], "expected some of occlusion, gradient, attention"),
        (["occlusion", "attention"], "kind recurrent has none; use occlusion or gradient"),
    ],
)
def test_invalid_methods_are_refused(methods, message):
    with pytest.raises(UserError, match=message):
        explain(build_task("recurrent"), "good", methods=methods)


def test_json_has_no_nan():
    attribution = explain(build_task("transformer"), "good zebra", methods=["attention"])
    table = replace(attribution, margin=float("nan")).to_dict()
    assert table["margin"] is None
    assert table["tokens"][1] == {"text": "zebra", "start": 5, "end": 10, "is_unknown": True}
    assert table["token_attributions"][0]["values"] == [
        round(v, 6) for v in attribution["attention"].values
    ]


@pytest.mark.parametrize(
    ("tokenizer", "unit"),
    [
        (WORDS, "word"),
        (CharacterTokenizer.train([VOCABULARY]), "character"),
        (BytePairTokenizer.train([VOCABULARY], 300), "token"),
    ],
)
def test_unit_of_the_tokens(tokenizer, unit):
    assert explain(build_task("recurrent", tokenizer), "the film").unit == unit
