"""Which words decided: held to brute force, to finite differences, to sums that must come out."""

from dataclasses import replace

import pytest
import torch

from workings.config import build
from workings.data import BytePairTokenizer, CharacterTokenizer, WordTokenizer
from workings.errors import UserError
from workings.interpret.attention_maps import compute_attention_maps
from workings.interpret.attribution import METHODS, explain
from workings.models.classifiers import build_classifier
from workings.recipes import ClassificationRecipe
from workings.tasks.classification import Classification
from workings.trace import Trace

SOME = "the film was good bad not very dull plum and a plot it loved acting"
WORDS = WordTokenizer(SOME.split())
SMALL = {
    "recurrent": {"cell": "gru", "d_model": 8, "hidden_size": 6, "bidirectional": True},
    "perceptron": {"d_model": 4, "length": 300, "hidden_sizes": [5, 3]},
    "averaged": {"d_model": 4, "pooling": "mean", "hidden_sizes": [5, 3]},
    "convolution": {"d_model": 8, "channels": [6, 4], "kernel": 3, "stride": 2, "hidden_size": 5},
    "flat": {"d_model": 4, "channels": [3], "kernel": 3, "pooling": "flatten", "length": 300},
    "transformer": {"d_model": 8, "heads": 2, "layers": 2, "d_ff": 16},
    "ngrams": {"min_count": 1},
}
KINDS = list(SMALL)
NEURAL = [kind for kind in KINDS if kind != "ngrams"]


def task_for(kind, tokenizer=WORDS, labels=("yes", "no", "perhaps"), read=512, **changes):
    """A task with a random model that reads `tokenizer`."""
    kinds = {"flat": "convolution", "averaged": "perceptron"}
    table = {"kind": kinds.get(kind, kind), **SMALL[kind], **changes}
    recipe = build(ClassificationRecipe, {"data": {"max_length": read}, "model": table})
    torch.manual_seed(0)
    model = build_classifier(recipe.model, len(tokenizer), len(labels))
    if kind == "ngrams":
        texts = torch.randint(3, len(tokenizer), (60, 12)).tolist()
        model.prepare(texts, [k % len(labels) for k in range(60)])
        torch.nn.init.normal_(model.weights)
        torch.nn.init.normal_(model.bias)
    return Classification(recipe, tokenizer, labels, model)


def words(count, seed=0):
    torch.manual_seed(seed)
    return " ".join(WORDS.id_to_token(i) for i in torch.randint(3, len(WORDS), (count,)).tolist())


@torch.no_grad()
def lead(task, told, ids):
    scores = task.compute_logits([ids])[0]
    return float(scores[task.labels.index(told.label)] - scores[task.labels.index(told.runner_up)])


# -- occlusion -------------------------------------------------------------------------------------


@pytest.mark.parametrize("padding", ["masked", "unmasked"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [70, 205])
def test_occlusion_is_what_one_by_one_gives(kind, padding, count):
    changes = {} if kind == "ngrams" else {"padding": padding}
    task = task_for(kind, read=450, **changes)
    told = explain(task, words(count), methods=["occlusion"])
    shares, ids = told["occlusion"], task.encode_with_spans(told.input_text)[0]
    assert shares.window == -(-len(ids) // 200)
    in_place = kind in ("perceptron", "convolution", "flat")
    if in_place and padding == "masked":
        task.model.embedding.weight.data[0] = 0  # such a model sees zeros for padding
    expected = []
    for start in range(0, len(ids), shares.window):
        hole = ids[start : start + shares.window]
        without = ids[:start] + [0] * len(hole) * in_place + ids[start + len(hole) :]
        expected += [(told.margin - lead(task, told, without)) / len(hole)] * len(hole)
    assert shares.values == pytest.approx(expected, abs=2e-5)
    assert max(map(abs, shares.values)) > 1e-4


def test_windows_are_told():
    task = task_for("recurrent")
    assert "a token is left out" in explain(task, words(200))["occlusion"].description
    told = explain(task, words(201))["occlusion"]
    assert "2 tokens in a row are left out, shared equally" in told.description
    assert told.values[::2] == [*told.values[1::2], told.values[-1]]
    assert "blanked" in explain(task_for("perceptron"), words(9))["occlusion"].description


# -- gradients -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "padding"),
    [(kind, "masked") for kind in NEURAL] + [("recurrent", "left"), ("transformer", "left")],
)
def test_the_slope_is_that_of_finite_differences(kind, padding):
    task = task_for(kind, read=20, padding=padding) if padding == "left" else task_for(kind)
    task.model.double()
    told = explain(task, words(6), methods=["gradient"])
    ids = task.encode_with_spans(told.input_text)[0]
    for k, value in enumerate(told["gradient"].values):
        leads = []
        for factor in (1.001, 0.999):
            width = 20 if padding == "left" else task.model.fixed_length or len(ids)
            scale = torch.ones(1, width, 1)
            scale[0, k + (padding == "left") * (width - len(ids))] = factor
            with Trace(only=(), scale={"embedded": scale}):
                leads.append(lead(task, told, ids))
        assert value == pytest.approx((leads[0] - leads[1]) / 0.002, abs=1e-4)


@pytest.mark.parametrize("text", ["", "good", "it it it it", words(40), "zebra it was zebra"])
@pytest.mark.parametrize("max_n", [1, 2, 3])
def test_what_ngrams_add_and_the_bias_are_the_lead(text, max_n):
    task = task_for("ngrams", max_n=max_n)
    told = explain(task, text, methods=["gradient"])
    best, second = map(task.labels.index, (told.label, told.runner_up))
    bias = task.model.bias.tolist()
    assert sum(told["gradient"].values) + bias[best] - bias[second] == pytest.approx(
        told.margin, abs=1e-5
    )


def test_for_single_words_occlusion_and_gradient_are_one():
    task = task_for("ngrams", max_n=1)
    told = explain(task, "the film was not very good and a dull plot")
    assert told["occlusion"].values == pytest.approx(told["gradient"].values, abs=1e-5)


# -- attention -------------------------------------------------------------------------------------


@pytest.mark.parametrize("pooling", ["mean", "max", "last"])
def test_attention_is_that_of_the_tokens_the_class_is_read_off(pooling):
    task = task_for("transformer", pooling=pooling)
    told = explain(task, "the film was very good")["attention"]
    with Trace(only="*.weights") as trace:
        task.model.eval()(torch.tensor([WORDS.encode("the film was very good")]), torch.tensor([5]))
    looked = [w[0].mean(0) for w in trace.matching("*").values()]
    expected = [row[-1] if pooling == "last" else row.mean(0) for row in looked]
    assert told.layers == [pytest.approx(layer.tolist(), abs=1e-6) for layer in expected]
    assert told.values == pytest.approx(torch.stack(expected).mean(0).tolist(), abs=1e-6)
    assert "2 heads and 2 layers" in told.description
    assert ("last token" in told.description) == (pooling == "last")


def test_attention_is_that_of_the_words_where_padding_comes_first():
    task = task_for("transformer", read=9, padding="left")
    told = explain(task, "the film was very good")["attention"]
    row = [0] * 4 + WORDS.encode("the film was very good")
    with Trace(only="*.weights") as trace:
        task.model.eval()(torch.tensor([row]), torch.tensor([9]))
    looked = [w[0].mean(0).mean(0)[4:] for w in trace.matching("*").values()]
    assert told.layers == [pytest.approx((w / w.sum()).tolist(), abs=1e-6) for w in looked]
    maps = compute_attention_maps(task, "the film was very good")
    first = next(iter(trace.matching("*").values()))[0, 0, 4:, 4:]
    torch.testing.assert_close(torch.tensor([list(r) for r in maps.maps[0].weights]), first)


@pytest.mark.parametrize("padding", ["masked", "unmasked", "left"])
def test_attention_adds_up_to_one(padding):
    task = task_for("transformer", read=20, padding=padding)
    told = explain(task, "the film was very good")["attention"]
    assert sum(told.values) == pytest.approx(1)
    assert all(sum(layer) == pytest.approx(1) for layer in told.layers)
    assert min(told.values) >= 0
    assert ("went to padding" in told.description) == (padding != "masked")


# -- one word --------------------------------------------------------------------------------------


def learn(task, steps=40):
    """Teach it that the answer is yes where there is a plum, and no elsewhere."""
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
    else:  # it can see nothing but plums
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
def test_every_method_finds_the_one_word_that_counts(kind):
    changes = {
        "perceptron": {"length": 8, "hidden_sizes": [32]},
        "averaged": {"hidden_sizes": [32]},
        "flat": {"length": 8, "channels": [8], "kernel": 1, "stride": 1},
        "transformer": {"pooling": "last", "layers": 1, "d_model": 16},
    }.get(kind, {})
    task = learn(task_for(kind, labels=("yes", "no"), **changes))
    told = explain(task, "it was a dull plum and the plot")
    assert told.label == "yes"
    methods = ["occlusion", "gradient", *["attention"] * (kind == "transformer")]
    assert [shares.method for shares in told.token_attributions] == methods
    for shares in told.token_attributions:
        assert shares.values.index(max(shares.values)) == 4, shares.method


# -- any text, any model ---------------------------------------------------------------------------

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
def test_any_text_will_do(kind, name):
    task = task_for(kind)
    told = explain(task, TEXTS[name])
    assert told.input_text == TEXTS[name]
    assert told.label == max(told.probabilities, key=told.probabilities.__getitem__)
    assert sum(told.probabilities.values()) == pytest.approx(1)
    for shares in told.token_attributions:
        assert len(shares.values) == len(told.spans)
        assert torch.tensor(shares.values).isfinite().all()
        assert torch.tensor(shares.values).abs().max() < 1e4 if shares.values else True
    assert told.html()
    assert told.text(width=60, color=True)
    if name == "unknown":
        assert told.unknown_tokens == [0, 1]
    if name == "long":
        read = task.model.fixed_length or 512
        assert len(told.spans) == read
        assert (
            told.input_text[told.spans[-1][1] :]
            == told.input_text[len(told.input_text) - told.truncated_characters :]
        )
    else:
        assert told.truncated_characters == 0


def test_a_long_text_without_tokens_is_cut_off_too():
    told = explain(task_for("recurrent", read=10), "x" * 1000)
    assert told.spans == [(0, 400)]
    assert told.truncated_characters == 600


@pytest.mark.parametrize("kind", ["recurrent", "transformer", "ngrams"])
def test_pieces_of_words_and_of_characters(kind):
    for tokenizer in (
        CharacterTokenizer.train(["low lower 🙂"]),
        BytePairTokenizer.train(["low lower"], vocab_size=270),
    ):
        told = explain(task_for(kind, tokenizer), "low 🙂 lower")
        assert {told.input_text[a:b].strip() for a, b in told.spans} >= {"🙂"}
        assert all(len(shares.values) == len(told.spans) for shares in told.token_attributions)
        assert "🙂" in told.html()


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_stays_as_it_was(kind):
    task = task_for(kind, dropout=0.5)
    task.model.train()
    before = {name: p.clone() for name, p in task.model.state_dict().items()}
    told, again = explain(task, words(12)), explain(task, words(12))
    assert told == again  # nothing is dropped while it is asked
    assert task.model.training
    assert all(p.grad is None for p in task.model.parameters())
    assert all(torch.equal(before[name], p) for name, p in task.model.state_dict().items())


def test_frozen_models_have_gradients_too():
    task = task_for("recurrent")
    free = explain(task, words(5))
    task.model.requires_grad_(False)
    assert explain(task, words(5)) == free


# -- asking ----------------------------------------------------------------------------------------


def test_methods_are_asked_by_name():
    task = task_for("transformer")
    told = explain(task, "good", methods=["attention", "occlusion", "attention"])
    assert [shares.method for shares in told.token_attributions] == ["attention", "occlusion"]
    assert [s.method for s in explain(task, "good").token_attributions] == list(METHODS)


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        (["oclusion"], "did you mean 'occlusion'"),
        (["lime"], "expected one of occlusion, gradient, attention"),
        ([], "expected some of occlusion, gradient, attention"),
        (["occlusion", "attention"], "kind recurrent has none: ask by occlusion or gradient"),
    ],
)
def test_what_cannot_be_asked(methods, message):
    with pytest.raises(UserError, match=message):
        explain(task_for("recurrent"), "good", methods=methods)


def test_plain_data_for_json():
    told = explain(task_for("transformer"), "good zebra", methods=["attention"])
    table = replace(told, margin=float("nan")).to_dict()
    assert table["margin"] is None
    assert table["tokens"][1] == {"text": "zebra", "start": 5, "end": 10, "is_unknown": True}
    assert table["token_attributions"][0]["values"] == [
        round(v, 6) for v in told["attention"].values
    ]


@pytest.mark.parametrize(
    ("tokenizer", "unit"),
    [
        (WORDS, "word"),
        (CharacterTokenizer.train([SOME]), "character"),
        (BytePairTokenizer.train([SOME], 300), "token"),
    ],
)
def test_a_token_is_called_what_it_is(tokenizer, unit):
    assert explain(task_for("recurrent", tokenizer), "the film").unit == unit
