"""Cells that track a property: planted ones are found, and nothing where nothing is."""

import json

import numpy as np
import pytest
import torch

from workings.config import build
from workings.data import BytePair, Characters
from workings.errors import UserError
from workings.lens import cells as module
from workings.lens import reading
from workings.lens.cells import find_among, find_cells
from workings.lens.properties import Property, from_pattern, properties
from workings.lens.reading import Reader
from workings.lens.scores import strengths
from workings.models.language import build_language_model
from workings.recipes import LanguageRecipe

SOME = 'He said: "Well, prince (so it is)." And the day\nwent on\n\n"Not for us," he cried.\n'
MODELS = {
    "lstm": {"kind": "recurrent", "cell": "lstm", "embedding": 4, "hidden": 6, "layers": 2},
    "gru": {"kind": "recurrent", "cell": "gru", "embedding": 4, "hidden": 6},
    "rnn": {"kind": "recurrent", "cell": "rnn", "embedding": 4, "hidden": 6},
    "rotary": {"kind": "transformer", "embedding": 8, "layers": 2, "heads": 2, "hidden": 12},
    "learned": {
        "kind": "transformer",
        "embedding": 8,
        "layers": 1,
        "heads": 2,
        "positions": "learned",
        "length": 20,
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
    recipe = build(LanguageRecipe, {"model": MODELS[name], "data": {"window": 16}})
    return build_language_model(recipe.model, len(tokenizer))


class Planted:
    """Cells that are given, whatever the text is."""

    def __init__(self, table, warm=0):
        self.table, self.warm, self.cells = table, warm, table.shape[1]

    def name(self, cell):
        return f"cell {cell}"

    def activations(self, places, cells=None):
        rows = self.table[places]
        return (rows if cells is None else rows[:, cells]).astype(np.float32)


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
    quoted = properties("prose")["quotes"].values(text)
    table[:, 17] = quoted * 2.0 - 1
    found = find_among(Planted(table), text, spans_of(text), [properties("prose")["quotes"]])
    best = found["quotes"].cells[0]
    assert (best.cell, best.against) == ("cell 17", False)
    assert best.score == pytest.approx(1)
    assert best.p == 1 / (1 + found.shifts)
    assert found["quotes"].chance < 1
    scored = np.concatenate(np.array_split(quoted, 10)[1::2])
    assert len(scored) == found.scored_on
    assert found["quotes"].share == pytest.approx(scored.mean())


def test_a_cell_that_falls_there_is_turned_and_told():
    text = text_of(900)
    table = drifting(len(text), 12)
    table[:, 5] = -properties("prose")["line"].values(text) + np.random.default_rng(0).normal(
        size=len(text)
    )
    best = find_among(Planted(table), text, spans_of(text), [properties("prose")["line"]])[
        "line"
    ].cells[0]
    assert best.cell == "cell 5"
    assert best.against
    assert best.score > 0.9
    scored = np.concatenate(np.array_split(np.arange(len(text)), 10)[1::2])
    exact = strengths(table[scored, 5:6], properties("prose")["line"].values(text)[scored])
    assert best.score == pytest.approx(-exact[0], abs=1e-6)


def test_where_nothing_tracks_the_best_of_many_is_no_news():
    text = text_of(700)
    wanted = [properties("prose")[name] for name in ("quotes", "line")]
    told = []
    for seed in range(8):
        table = drifting(len(text), 200, seed, memory=0.9)
        found = find_among(Planted(table), text, spans_of(text), wanted, top=1)
        told += [found[p.name].cells[0].p for p in wanted]
    # Of sixteen tries, one in twenty may look like something; on its own half the best does well.
    assert np.median(told) > 0.2
    assert sum(p < 0.05 for p in told) <= 2


def test_what_a_cell_does_against_its_own_direction_counts_below():
    text = text_of(900)
    quoted = properties("prose")["quotes"].values(text)
    parts = np.array_split(np.ones(len(text)), 10)
    turned = np.concatenate([part * (-1) ** k for k, part in enumerate(parts)])
    table = (quoted * turned)[:, None]
    found = find_among(Planted(table), text, spans_of(text), [properties("prose")["quotes"]])
    assert found["quotes"].cells[0].chosen == pytest.approx(1)
    assert found["quotes"].cells[0].score == pytest.approx(0, abs=1e-9)
    assert found["quotes"].cells[0].p == 1.0


def test_of_a_long_text_places_are_drawn(monkeypatch):
    monkeypatch.setattr(module, "BUDGET", 1000)
    text = text_of(2000)
    table = drifting(len(text), 2)
    table[:, 1] = properties("prose")["quotes"].values(text)
    found = find_among(Planted(table), text, spans_of(text), [properties("prose")["quotes"]])
    assert found["quotes"].cells[0].cell == "cell 1"
    assert found["quotes"].cells[0].score == pytest.approx(1)


def test_what_is_before_the_text_says_how_it_begins():
    text = ("a" * 30 + '"' + "b" * 30) * 20
    planted = Planted(drifting(len(text), 2))
    wanted = [properties("prose")["quotes"]]
    inside = find_among(planted, text, spans_of(text), wanted, before='"')
    outside = find_among(planted, text, spans_of(text), wanted)
    assert inside["quotes"].share + outside["quotes"].share == pytest.approx(1)
    assert inside["quotes"].excerpt.marked != outside["quotes"].excerpt.marked


def test_what_never_changes_is_left_out():
    text = text_of(500)
    table = drifting(len(text), 3)
    wanted = [properties("c")["comments"], from_pattern("x", "x")]
    found = find_among(Planted(table), text, spans_of(text), wanted)
    assert found.tracked == []
    assert found.left_out == ["comments", "x"]
    assert "left out: comments, x" in found.to_text(width=80)


@pytest.mark.parametrize(
    ("text", "wanted", "top", "said"),
    [
        ("short", ["quotes"], 1, "400 at least"),
        (None, ["quotes", "quotes"], 1, "two properties are called 'quotes'"),
        (None, ["quotes"], 0, "at least 1"),
    ],
)
def test_what_cannot_be_asked(text, wanted, top, said):
    text = text or text_of(400)
    asked = [properties("prose")[name] for name in wanted]
    with pytest.raises(UserError, match=said):
        find_among(Planted(drifting(len(text), 2)), text, spans_of(text), asked, top=top)


# -- reading -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn"])
@torch.no_grad()
def test_recurrent_cells_are_those_of_one_long_reading(name, monkeypatch):
    monkeypatch.setattr(reading, "SIDE_BY_SIDE", 3)
    tokenizer = Characters.train([SOME])
    model = model_for(name, tokenizer)
    ids = np.asarray(tokenizer.encode(SOME * 9))
    reader = Reader(model, ids)
    places = np.arange(reader.warm, len(ids))
    found = reader.activations(places)
    states, _, _ = model.recurrent(model.embedding(torch.from_numpy(ids)[None]))
    last = [k for k in range(reader.cells) if reader.name(k).startswith("layer 2, hidden")]
    last = last or [k for k in range(reader.cells) if "hidden" in reader.name(k)]
    # Such small models forget what is further back than they are warmed up with.
    expected = states[0, places].numpy()
    assert np.abs(found[:, last] - expected).max() < 1e-3
    some = [0, reader.cells - 1]
    np.testing.assert_allclose(reader.activations(places[5:40], some), found[5:40, some], atol=1e-3)


@torch.no_grad()
def test_an_lstm_has_cells_and_hidden_states():
    tokenizer = Characters.train([SOME])
    reader = Reader(model_for("lstm", tokenizer), np.asarray(tokenizer.encode(SOME)))
    names = [reader.name(k) for k in range(reader.cells)]
    assert names[0] == "layer 1, cell 1"
    assert names[6] == "layer 1, hidden 1"
    assert names[-1] == "layer 2, hidden 6"
    found = reader.activations(np.arange(reader.warm, len(SOME)))
    assert (np.abs(found[:, 6:12]) <= np.abs(np.tanh(found[:, :6])) + 1e-6).all()  # h = o tanh c


@pytest.mark.parametrize(("name", "window"), [("rotary", 16), ("learned", 64)])
@torch.no_grad()
def test_a_transformers_cells_see_at_least_half_a_window(name, window):
    tokenizer = Characters.train([SOME])
    model = model_for(name, tokenizer)
    ids = np.asarray(tokenizer.encode(SOME))
    reader = Reader(model, ids, window)
    real = min(window, 20) if name == "learned" else window
    assert reader.warm == real // 2
    found = reader.activations(np.arange(reader.warm, len(ids)))
    features = [k for k in range(reader.cells) if "feature" in reader.name(k)][-8:]
    begin = reader.warm  # the first share, read from the text's beginning
    x, _ = model.read(torch.from_numpy(ids[:real])[None], None)
    # The last block's feature, normed, is what the model reads the next token off.
    normed = model.norm(torch.from_numpy(found[: real - begin][:, features]))
    torch.testing.assert_close(normed, x[0, begin:real], atol=1e-5, rtol=1e-4)
    assert reader.name(0) == "block 1, neuron 1"


@pytest.mark.parametrize("name", MODELS)
def test_every_model_can_be_looked_into(name):
    text = SOME * 14
    tokenizer = Characters.train([text])
    model = model_for(name, tokenizer).train()
    found = find_cells(model, tokenizer, text, list(properties("prose").values()), window=24)
    assert [tracked.name for tracked in found.tracked] == ["quotes", "brackets", "line"]
    assert model.training
    for tracked in found.tracked:
        assert len(tracked.cells) == 3
        for cell in tracked.cells:
            assert 0 <= cell.p <= 1
            assert len(cell.values) == len(tracked.excerpt.spans)
    figures = json.dumps(found.to_table())
    assert "prince" not in figures  # figures can be kept where the text may not
    again = find_cells(model, tokenizer, text, list(properties("prose").values()), window=24)
    assert again.to_table() == found.to_table()


def test_tokens_have_the_property_of_their_last_character():
    text = (SOME + "naïve 🙂 ") * 60
    tokenizer = BytePair.train([text], size=280)
    model = model_for("lstm", tokenizer)
    seen = []
    ends = Property("last", "", lambda t: seen.append(t) or [c == "e" for c in t])
    found = find_cells(model, tokenizer, text, [ends], top=1)
    assert found.unit == "tokens"
    shown = found["last"].excerpt
    for k, (start, end) in enumerate(shown.spans):
        assert (k in shown.marked) == (shown.text[start:end][-1] == "e")
    assert all(a[1] <= b[0] for a, b in zip(shown.spans, shown.spans[1:], strict=False))
    assert "last character" in found.to_text(width=100)


def test_a_real_model_on_a_text_in_which_nothing_changes():
    text = "no such thing here. " * 40
    tokenizer = Characters.train([text])
    model = build_language_model({"kind": "recurrent", "embedding": 4, "hidden": 4}, len(tokenizer))
    found = find_cells(model.eval(), tokenizer, text, [from_pattern("x", "zzz")])
    assert found.tracked == []
    assert found.left_out == ["x"]
