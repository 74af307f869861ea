"""Passages of a corpus, and the activations of neurons on them."""

import numpy as np
import pytest
import torch

from workings.config import build
from workings.data import CharacterTokenizer
from workings.interpret import activations
from workings.interpret.activations import ActivationReader, select_passage
from workings.models.language import build_language_model
from workings.recipes import LanguageRecipe
from workings.tasks.language_modeling import LanguageModeling

TEXT = 'He said: "Well, prince (so it is)." And the day\nwent on\n\n"Not for us," he cried.\n'
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


def build_model(name, tokenizer):
    torch.manual_seed(0)
    recipe = build(LanguageRecipe, {"model": MODELS[name], "data": {"context_length": 16}})
    return build_language_model(recipe.model, len(tokenizer))


@pytest.mark.parametrize("kind", ["characters", "byte-pair"])
def test_passage_begins_where_the_training_text_ends(tmp_path, monkeypatch, kind):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # The first part has far fewer tokens per character than the second.
    first, second = "the cat sat on the mat. " * 100, "qzxvkjw!?#" * 80
    path = tmp_path / "text.txt"
    path.write_text(first + second)
    table = {"data": {"set": str(path), "validation": 0.25, "context_length": 8}}
    recipe = build(LanguageRecipe, {**table, "tokenizer": {"kind": kind, "vocab_size": 400}})
    assert select_passage(recipe, None, 10_000) == (first, second)
    task = LanguageModeling.from_recipe(recipe)
    assert task.tokenizer.decode(task._train_ids[:].tolist()) == first


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn"])
@torch.no_grad()
def test_activations_of_recurrent_models_match_one_long_pass(name, monkeypatch):
    monkeypatch.setattr(activations, "BATCH_SIZE", 3)
    tokenizer = CharacterTokenizer.train([TEXT])
    model = build_model(name, tokenizer)
    ids = np.asarray(tokenizer.encode(TEXT * 9))
    reader = ActivationReader(model, ids)
    positions = np.arange(reader.warmup_tokens, len(ids))
    values = reader.read_activations(positions)
    states, _, _ = model.recurrent(model.embedding(torch.from_numpy(ids)[None]))
    names = [reader.neuron_name(k) for k in range(reader.num_neurons)]
    last_layer = "layer 2, hidden" if name == "lstm" else "layer 1, hidden"
    columns = [k for k, n in enumerate(names) if n.startswith(last_layer)]
    # Such small models forget what lies further back than their warm-up.
    assert np.abs(values[:, columns] - states[0, positions].numpy()).max() < 1e-3
    neurons = [0, reader.num_neurons - 1]
    np.testing.assert_allclose(
        reader.read_activations(positions[5:40], neurons), values[5:40, neurons], atol=1e-3
    )


@torch.no_grad()
def test_lstm_has_cells_and_hidden_states():
    tokenizer = CharacterTokenizer.train([TEXT])
    reader = ActivationReader(build_model("lstm", tokenizer), np.asarray(tokenizer.encode(TEXT)))
    names = [reader.neuron_name(k) for k in range(reader.num_neurons)]
    assert names[0] == "layer 1, cell 1"
    assert names[6] == "layer 1, hidden 1"
    assert names[-1] == "layer 2, hidden 6"
    values = reader.read_activations(np.arange(reader.warmup_tokens, len(TEXT)))
    assert (np.abs(values[:, 6:12]) <= np.abs(np.tanh(values[:, :6])) + 1e-6).all()  # h = o tanh c


@pytest.mark.parametrize(("name", "window"), [("rotary", 16), ("learned", 64)])
@torch.no_grad()
def test_transformer_reads_at_least_half_a_window_before_each_position(name, window):
    tokenizer = CharacterTokenizer.train([TEXT])
    model = build_model(name, tokenizer)
    ids = np.asarray(tokenizer.encode(TEXT))
    reader = ActivationReader(model, ids, window)
    window = min(window, 20) if name == "learned" else window
    start = reader.warmup_tokens
    assert start == window // 2
    values = reader.read_activations(np.arange(start, len(ids)))
    features = [k for k in range(reader.num_neurons) if "feature" in reader.neuron_name(k)][-8:]
    # The first segment begins with the text; its normalized features are what the head reads.
    x, _ = model.forward_features(torch.from_numpy(ids[:window])[None], None)
    normalized = model.norm(torch.from_numpy(values[: window - start][:, features]))
    torch.testing.assert_close(normalized, x[0, start:window], atol=1e-5, rtol=1e-4)
    assert reader.neuron_name(0) == "block 1, neuron 1"


@pytest.mark.parametrize("name", ["lstm", "rotary"])
def test_reading_from_the_start_ignores_dropout(name):
    tokenizer = CharacterTokenizer.train([TEXT])
    table = {**MODELS[name], "dropout": 0.5}
    model = build_language_model(table, len(tokenizer)).train()
    reader = ActivationReader(model, np.asarray(tokenizer.encode(TEXT)))
    first, second = reader.read_from_start(), reader.read_from_start([0, 1])
    assert first.shape == (len(TEXT), reader.num_neurons)
    np.testing.assert_allclose(first[:, :2], second)
    assert model.training
