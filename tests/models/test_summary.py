"""The layer table: its rows add up to the model's parameters and count every product."""

from pathlib import Path

import pytest
import torch

from workings import models
from workings.models.classifiers import build_classifier
from workings.models.summary import summarize
from workings.models.vision import build_vision_encoder
from workings.recipes import read_recipe

RECIPES = Path(__file__).parents[2] / "recipes"

# The tables in the lecture notes: parameters, and millions of mult-adds where they print them.
NOTES = {
    "rnn": (2_572_546, None),
    "lstm": (2_758_786, None),
    "perceptron": (68_228_482, 68.23),
    "conv": (4_641_538, 35.38),
    "conv-max": (2_806_402, 27.58),
}


@pytest.mark.parametrize("name", NOTES)
def test_the_tables_of_the_notes(name):
    recipe = read_recipe(RECIPES / f"imdb-{name}-notes.toml")
    model = build_classifier(recipe.model, recipe.tokenizer.vocab_size, 2)
    table = summarize(model, 500)
    parameters, mult_adds = NOTES[name]
    assert table.parameters == sum(row.parameters for row in table.rows) == parameters
    if mult_adds is not None:
        assert round(table.mult_adds / 1e6, 2) == mult_adds
    if name == "conv-max":
        shapes = {row.kind: row.shape for row in table.rows}
        assert shapes["Conv1d"] == (-1, 128, 53)
        sizes = (table.input_mb, table.activations_mb, table.parameters_mb, table.total_mb)
        assert [round(mb, 2) for mb in sizes] == [0.12, 0.70, 10.71, 11.53]


def small_encoder():
    return build_vision_encoder(channels=(4, 8))


MODELS = {
    "recurrent language model": lambda: models.RecurrentLM(20, d_model=8, hidden_size=12),
    "tied language model": lambda: models.TransformerLM(20, d_model=8, layers=1, heads=2),
    "untied language model": lambda: models.TransformerLM(
        20, d_model=8, layers=1, heads=2, tie_embeddings=False, positions="learned"
    ),
    "classifier": lambda: models.TransformerClassifier(20, 3, d_model=8, layers=1, heads=2),
    "recurrent translator": lambda: models.RecurrentTranslator(20, 30, d_model=8, hidden_size=6),
    "translator": lambda: models.TransformerTranslator(20, 20, d_model=8, layers=2, heads=2),
    "translator with two embeddings": lambda: models.TransformerTranslator(
        20, 30, d_model=8, layers=1, heads=2, share_embeddings=False, output_bias=True
    ),
    "recurrent captioner": lambda: models.RecurrentCaptioner(
        20, d_model=8, hidden_size=6, encoder=small_encoder()
    ),
    "captioner": lambda: models.TransformerCaptioner(
        20, d_model=8, layers=1, heads=2, encoder=small_encoder()
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_rows_add_up_to_all_parameters(name):
    model = MODELS[name]()
    table = summarize(model, length=5, pixels=16)
    every = sum(parameter.numel() for parameter in model.parameters())
    assert sum(row.parameters for row in table.rows) == table.parameters == every
    assert len({row.name for row in table.rows}) == len(table.rows)
    assert model.training


def test_a_tied_head_is_listed_without_the_parameters_of_the_embedding():
    rows = {row.name: row for row in summarize(MODELS["tied language model"](), length=5).rows}
    assert (rows["embedding"].parameters, rows["embedding"].kind) == (20 * 8, "Embedding")
    assert (rows["head"].parameters, rows["head"].kind) == (0, "Linear, tied")
    assert rows["head"].mult_adds == 5 * 20 * 8


def test_cross_attention_lists_its_projections():
    rows = {row.name: row for row in summarize(MODELS["captioner"](), length=5, pixels=16).rows}
    query = rows["decoder.0.cross_attention.query"]
    key_value = rows["decoder.0.cross_attention.key_value"]
    assert (query.shape, query.parameters, query.mult_adds) == ((-1, 5, 8), 8 * 9, 5 * 8 * 8)
    cells = 4 * 4  # 16 pixels, halved by each of two stages
    assert key_value.shape == (-1, cells, 16)
    assert (key_value.parameters, key_value.mult_adds) == (16 * 9, cells * 16 * 8)
    assert list(rows).index(query.name) < list(rows).index("decoder.0.cross_attention.output")


def test_a_layer_called_at_every_step_has_one_row():
    model = MODELS["recurrent captioner"]()
    rows = {row.name: row for row in summarize(model, length=5, pixels=16).rows}
    query = rows["attention.additive.query"]
    assert query.mult_adds == 5 * model.attention.additive.query.weight.numel()
    assert rows["grid.encoder.backbone.0"].mult_adds == 8 * 8 * (3 * 3 * 3 * 4)


def test_a_layer_that_is_not_called_is_listed_last():
    model = MODELS["tied language model"]()
    model.unused = torch.nn.Linear(3, 4)
    last = summarize(model, length=5).rows[-1]
    assert (last.name, last.shape, last.parameters, last.mult_adds) == ("unused", (), 16, 0)
