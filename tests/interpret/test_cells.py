"""Cells that track a property: planted ones are found, and nothing where nothing is."""

import json

import numpy as np
import pytest
import torch

from workings.config import build
from workings.data import BytePairTokenizer, CharacterTokenizer
from workings.errors import UserError
from workings.interpret import activations
from workings.interpret import neurons as module
from workings.interpret.activations import ActivationReader
from workings.interpret.neurons import compute_association, find_neurons, search_neurons
from workings.interpret.text_properties import Property, from_pattern, list_properties
from workings.models.language import build_language_model
from workings.recipes import LanguageRecipe

SOME = 'He said: "Well, prince (so it is)." And the day\nwent on\n\n"Not for us," he cried.\n'
MODELS = {
    "lstm": {"kind": "recurrent", "cell": "lstm", "d_model": 4, "hidden_size": 6, "layers": 2},
    "gru": {"kind": "recurrent", "cell": "gru", "d_model": 4, "hidden_size": 6},
    "rnn": {"kind": "recurrent", "cell": "rnn", "d_model": 4, "hidden_size": 6},
    "rotary": {"kind": "transformer", "d_model": 8, "layers": 2, "heads": 2, "d_ff": 12},
    "learned": {
        "kind": "transformer",
        "d_model": 8,
        "layers": 1,
        "heads": 2,
        "positions": "learned",
        "max_positions": 20,
    },
}


def text_of(count, seed=0):
    random = np.random.default_rng(seed)
    words = [
        "day",
        "prince",
        "war",
        "(so",
        "it is)",
        "said,",
        "he cried.\n",
        "\n\n",
        '"Well,',
        'no"',
    ]
    return " ".join(random.choice(words, count))


def model_for(name, tokenizer, seed=0):
    torch.manual_seed(seed)
    recipe = build(LanguageRecipe, {"model": MODELS[name], "data": {"context_length": 16}})
    return build_language_model(recipe.model, len(tokenizer))


class Planted:
    """Cells that are given, whatever the text is."""

    def __init__(self, table, warm=0):
        self.table, self.warmup_tokens, self.num_neurons = table, warm, table.shape[1]

    def neuron_name(self, neuron):
        return f"cell {neuron}"

    def read_activations(self, positions, neurons=None):
        rows = self.table[positions]
        return (rows if neurons is None else rows[:, neurons]).astype(np.float32)


def drifting(places, cells, seed=0, memory=0.98):
    """Cells that wander about, as a model's do: each place is much like the one before."""
    random = np.random.default_rng(seed)
    steps = random.standard_normal((places, cells))
    for k in range(1, places):
        steps[k] += memory * steps[k - 1]
    return steps


def spans_of(text):
    return [(k, k + 1) for k in range(len(text))]


# -- finding -------------------------------------------------------------------------------------


def test_a_planted_cell_is_found_with_an_auc_of_1():
    text = text_of(900)
    table = drifting(len(text), 40)
    quoted = list_properties("prose")["quotes"].compute_values(text)
    table[:, 17] = quoted * 2.0 - 1
    found = search_neurons(
        Planted(table), text, spans_of(text), [list_properties("prose")["quotes"]]
    )
    best = found["quotes"].neurons[0]
    assert (best.neuron, best.is_inverted) == ("cell 17", False)
    assert best.score == pytest.approx(1)
    assert best.p_value == 1 / (1 + found.num_shifts)
    assert found["quotes"].chance_level < 1
    scored = np.concatenate(np.array_split(quoted, 10)[1::2])
    assert len(scored) == found.num_scoring_tokens
    assert found["quotes"].prevalence == pytest.approx(scored.mean())


def test_a_cell_that_falls_there_is_turned_and_told():
    text = text_of(900)
    table = drifting(len(text), 12)
    table[:, 5] = -list_properties("prose")["line"].compute_values(text) + np.random.default_rng(
        0
    ).normal(size=len(text))
    best = search_neurons(Planted(table), text, spans_of(text), [list_properties("prose")["line"]])[
        "line"
    ].neurons[0]
    assert best.neuron == "cell 5"
    assert best.is_inverted
    assert best.score > 0.9
    scored = np.concatenate(np.array_split(np.arange(len(text)), 10)[1::2])
    exact = compute_association(
        table[scored, 5:6], list_properties("prose")["line"].compute_values(text)[scored]
    )
    assert best.score == pytest.approx(-exact[0], abs=1e-6)


def test_where_nothing_tracks_the_best_of_many_is_no_news():
    text = text_of(700)
    wanted = [list_properties("prose")[name] for name in ("quotes", "line")]
    told = []
    for seed in range(8):
        table = drifting(len(text), 200, seed, memory=0.9)
        found = search_neurons(Planted(table), text, spans_of(text), wanted, top=1)
        told += [found[p.name].neurons[0].p_value for p in wanted]
    # Of sixteen tries, one in twenty may look like something; on its own half the best does well.
    assert np.median(told) > 0.2
    assert sum(p < 0.05 for p in told) <= 2


def test_what_a_cell_does_against_its_own_direction_counts_below():
    text = text_of(900)
    quoted = list_properties("prose")["quotes"].compute_values(text)
    parts = np.array_split(np.ones(len(text)), 10)
    turned = np.concatenate([part * (-1) ** k for k, part in enumerate(parts)])
    table = (quoted * turned)[:, None]
    found = search_neurons(
        Planted(table), text, spans_of(text), [list_properties("prose")["quotes"]]
    )
    assert found["quotes"].neurons[0].selection_score == pytest.approx(1)
    assert found["quotes"].neurons[0].score == pytest.approx(0, abs=1e-9)
    assert found["quotes"].neurons[0].p_value == 1.0


def test_of_a_long_text_places_are_drawn(monkeypatch):
    monkeypatch.setattr(module, "MAX_ACTIVATIONS", 1000)
    text = text_of(2000)
    table = drifting(len(text), 2)
    table[:, 1] = list_properties("prose")["quotes"].compute_values(text)
    found = search_neurons(
        Planted(table), text, spans_of(text), [list_properties("prose")["quotes"]]
    )
    assert found["quotes"].neurons[0].neuron == "cell 1"
    assert found["quotes"].neurons[0].score == pytest.approx(1)


def test_what_is_before_the_text_says_how_it_begins():
    text = ("a" * 30 + '"' + "b" * 30) * 20
    planted = Planted(drifting(len(text), 2))
    wanted = [list_properties("prose")["quotes"]]
    inside = search_neurons(planted, text, spans_of(text), wanted, preceding_text='"')
    outside = search_neurons(planted, text, spans_of(text), wanted)
    assert inside["quotes"].prevalence + outside["quotes"].prevalence == pytest.approx(1)
    assert inside["quotes"].excerpt.marked_tokens != outside["quotes"].excerpt.marked_tokens


def test_what_never_changes_is_left_out():
    text = text_of(500)
    table = drifting(len(text), 3)
    wanted = [list_properties("c")["comments"], from_pattern("x", "x")]
    found = search_neurons(Planted(table), text, spans_of(text), wanted)
    assert found.properties == []
    assert found.constant_properties == ["comments", "x"]
    assert "left out: comments, x" in found.text(width=80)


@pytest.mark.parametrize(
    ("text", "wanted", "top", "said"),
    [
        ("short", ["quotes"], 1, "at least 400"),
        (None, ["quotes", "quotes"], 1, "two properties are called 'quotes'"),
        (None, ["quotes"], 0, "at least 1"),
    ],
)
def test_what_cannot_be_asked(text, wanted, top, said):
    text = text or text_of(400)
    asked = [list_properties("prose")[name] for name in wanted]
    with pytest.raises(UserError, match=said):
        search_neurons(Planted(drifting(len(text), 2)), text, spans_of(text), asked, top=top)


# -- reading -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn"])
@torch.no_grad()
def test_recurrent_cells_are_those_of_one_long_reading(name, monkeypatch):
    monkeypatch.setattr(activations, "BATCH_SIZE", 3)
    tokenizer = CharacterTokenizer.train([SOME])
    model = model_for(name, tokenizer)
    ids = np.asarray(tokenizer.encode(SOME * 9))
    reader = ActivationReader(model, ids)
    places = np.arange(reader.warmup_tokens, len(ids))
    found = reader.read_activations(places)
    states, _, _ = model.recurrent(model.embedding(torch.from_numpy(ids)[None]))
    last = [
        k for k in range(reader.num_neurons) if reader.neuron_name(k).startswith("layer 2, hidden")
    ]
    last = last or [k for k in range(reader.num_neurons) if "hidden" in reader.neuron_name(k)]
    # Such small models forget what is further back than they are warmed up with.
    expected = states[0, places].numpy()
    assert np.abs(found[:, last] - expected).max() < 1e-3
    some = [0, reader.num_neurons - 1]
    np.testing.assert_allclose(
        reader.read_activations(places[5:40], some), found[5:40, some], atol=1e-3
    )


@torch.no_grad()
def test_an_lstm_has_cells_and_hidden_states():
    tokenizer = CharacterTokenizer.train([SOME])
    reader = ActivationReader(model_for("lstm", tokenizer), np.asarray(tokenizer.encode(SOME)))
    names = [reader.neuron_name(k) for k in range(reader.num_neurons)]
    assert names[0] == "layer 1, cell 1"
    assert names[6] == "layer 1, hidden 1"
    assert names[-1] == "layer 2, hidden 6"
    found = reader.read_activations(np.arange(reader.warmup_tokens, len(SOME)))
    assert (np.abs(found[:, 6:12]) <= np.abs(np.tanh(found[:, :6])) + 1e-6).all()  # h = o tanh c


@pytest.mark.parametrize(("name", "window"), [("rotary", 16), ("learned", 64)])
@torch.no_grad()
def test_a_transformers_cells_see_at_least_half_a_window(name, window):
    tokenizer = CharacterTokenizer.train([SOME])
    model = model_for(name, tokenizer)
    ids = np.asarray(tokenizer.encode(SOME))
    reader = ActivationReader(model, ids, window)
    real = min(window, 20) if name == "learned" else window
    assert reader.warmup_tokens == real // 2
    found = reader.read_activations(np.arange(reader.warmup_tokens, len(ids)))
    features = [k for k in range(reader.num_neurons) if "feature" in reader.neuron_name(k)][-8:]
    begin = reader.warmup_tokens  # the first share, read from the text's beginning
    x, _ = model.forward_features(torch.from_numpy(ids[:real])[None], None)
    # The last block's feature, normed, is what the model reads the next token off.
    normed = model.norm(torch.from_numpy(found[: real - begin][:, features]))
    torch.testing.assert_close(normed, x[0, begin:real], atol=1e-5, rtol=1e-4)
    assert reader.neuron_name(0) == "block 1, neuron 1"


@pytest.mark.parametrize("name", MODELS)
def test_every_model_can_be_looked_into(name):
    text = SOME * 14
    tokenizer = CharacterTokenizer.train([text])
    model = model_for(name, tokenizer).train()
    found = find_neurons(model, tokenizer, text, list(list_properties("prose").values()), window=24)
    assert [tracked.name for tracked in found.properties] == ["quotes", "brackets", "line"]
    assert model.training
    for tracked in found.properties:
        assert len(tracked.neurons) == 3
        for cell in tracked.neurons:
            assert 0 <= cell.p_value <= 1
            assert len(cell.activations) == len(tracked.excerpt.spans)
    figures = json.dumps(found.to_dict())
    assert "prince" not in figures  # figures can be kept where the text may not
    again = find_neurons(model, tokenizer, text, list(list_properties("prose").values()), window=24)
    assert again.to_dict() == found.to_dict()


def test_tokens_have_the_property_of_their_last_character():
    text = (SOME + "naïve 🙂 ") * 60
    tokenizer = BytePairTokenizer.train([text], vocab_size=280)
    model = model_for("lstm", tokenizer)
    seen = []
    ends = Property("last", "", lambda t: seen.append(t) or [c == "e" for c in t])
    found = find_neurons(model, tokenizer, text, [ends], top=1)
    assert found.unit == "tokens"
    shown = found["last"].excerpt
    for k, (start, end) in enumerate(shown.spans):
        assert (k in shown.marked_tokens) == (shown.text[start:end][-1] == "e")
    assert all(a[1] <= b[0] for a, b in zip(shown.spans, shown.spans[1:], strict=False))
    assert "last character" in found.text(width=100)


def test_a_real_model_on_a_text_in_which_nothing_changes():
    text = "no such thing here. " * 40
    tokenizer = CharacterTokenizer.train([text])
    model = build_language_model(
        {"kind": "recurrent", "d_model": 4, "hidden_size": 4}, len(tokenizer)
    )
    found = find_neurons(model.eval(), tokenizer, text, [from_pattern("x", "zzz")])
    assert found.properties == []
    assert found.constant_properties == ["x"]
