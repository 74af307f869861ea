"""Freezing and layer-wise learning rates."""

import pytest
import torch
import toys
from torch import nn

from workings.errors import UserError
from workings.models import (
    RecurrentLM,
    TransformerCaptioner,
    TransformerLM,
    TransformerTranslator,
)
from workings.recipes import TrainConfig
from workings.storage import read_tensors
from workings.training.optimizers import build_optimizer
from workings.training.parameter_groups import find_frozen, freeze, rate_factors, set_train_mode
from workings.training.runs import train_recipe


def factors_by_name(model, layer_decay=0.5):
    factors = rate_factors(model, layer_decay)
    return {name: factors[weight] for name, weight in model.named_parameters()}


@pytest.mark.parametrize("positions", ["rotary", "learned"])
def test_rates_fall_from_the_head_to_the_embedding(positions):
    model = TransformerLM(
        9, d_model=8, layers=2, heads=2, positions=positions, tie_embeddings=False
    )
    expected = {"head": 1.0, "norm": 1.0, "blocks.1": 0.5, "blocks.0": 0.25, "embedding": 0.125}
    expected["positions"] = expected["embedding"]
    for name, factor in factors_by_name(model).items():
        assert factor == next(f for prefix, f in expected.items() if name.startswith(prefix)), name


def test_both_directions_of_a_recurrent_layer_have_one_rate():
    factors = factors_by_name(RecurrentLM(9, d_model=8, hidden_size=8, layers=2))
    layers = {name.split(".")[2]: f for name, f in factors.items() if name.startswith("recurrent")}
    assert layers == {"0": 0.25, "1": 0.5}


def test_an_encoder_is_below_the_decoder():
    model = TransformerTranslator(9, 9, d_model=8, layers=2, heads=2, d_ff=8)
    factors = factors_by_name(model)
    by_layer = {
        stack: [factors[f"{stack}.{k}.attention.output.weight"] for k in range(2)]
        for stack in ("encoder", "decoder")
    }
    assert by_layer == {"encoder": [0.0625, 0.125], "decoder": [0.25, 0.5]}
    assert factors["target_embedding.weight"] == 0.03125


def test_images_are_the_lowest_layer():
    factors = factors_by_name(TransformerCaptioner(9, d_model=8, layers=1, heads=2, d_ff=8))
    assert {f for name, f in factors.items() if name.startswith("grid.encoder")} == {0.25}


@pytest.mark.parametrize("optimizer", ["adamw", "adam", "sgd", "muon"])
def test_parameter_groups_have_their_factors(optimizer):
    model = TransformerLM(9, d_model=8, layers=2, heads=2)
    config = TrainConfig(optimizer=optimizer, layer_decay=0.5)
    groups = build_optimizer(model, config).param_groups
    factors = rate_factors(model, 0.5)
    assert {w: g["lr_factor"] for g in groups for w in g["params"]} == factors
    plain = build_optimizer(model, TrainConfig(optimizer=optimizer)).param_groups
    decays = {w: g["weight_decay"] for g in plain for w in g["params"]}
    assert {w: g["weight_decay"] for g in groups for w in g["params"]} == decays


def test_a_step_of_sgd_is_scaled_by_layer(tmp_path):
    """One step of plain SGD from equal weights: the update of a layer is its factor's share."""
    text = toys.write_corpus(tmp_path / "text.txt")
    model = {"kind": "transformer", "d_model": 8, "layers": 2, "heads": 2, "dropout": 0.0}
    settings = {
        "--train.optimizer": "sgd", "--train.momentum": "0", "--train.weight_decay": "0",
        "--train.epochs": "1", "--data.eval_every": "1", "--train.clip_norm": "none",
    }  # fmt: skip
    words = [word for pair in settings.items() for word in pair]
    runs = {}
    for decay in ("1", "0.5"):
        recipe = toys.corpus_recipe(text, *words, "--train.layer_decay", decay, model=model)
        runs[decay] = train_recipe(recipe, tmp_path / decay, mode="quiet").model
    torch.manual_seed(recipe.seed)
    start = type(runs["1"])(**runs["1"].init_arguments)
    factors = factors_by_name(start)
    before = dict(start.named_parameters())
    full, decayed = (dict(runs[decay].named_parameters()) for decay in ("1", "0.5"))
    for name, weight in before.items():
        update = full[name] - weight
        torch.testing.assert_close(decayed[name], weight + factors[name] * update)
        assert update.abs().max() > 0 or name.endswith("bias"), name


@pytest.mark.parametrize(
    ("settings", "frozen"),
    [
        (["--train.optimizer", "adamw", "--train.average", "last"], "embedding"),
        (["--train.optimizer", "muon", "--train.average", "ema"], "blocks.0"),
        (["--train.optimizer", "sgd"], "blocks.0.attention"),
    ],
)
def test_frozen_weights_do_not_change(settings, frozen, tmp_path):
    text = toys.write_corpus(tmp_path / "text.txt")
    seen = []
    recipe = toys.corpus_recipe(
        text, *settings, "--train.freeze", f'["{frozen}"]', "--model.tie_embeddings", "false",
        "--train.weight_decay", "0.1", "--data.eval_every", "4",
    )  # fmt: skip
    train_recipe(
        recipe,
        tmp_path / "run",
        mode="quiet",
        prepare=lambda t: seen.append({n: w.clone() for n, w in t.model.state_dict().items()}),
    )
    trained = read_tensors(tmp_path / "run" / "model.safetensors")
    for name, before in seen[0].items():
        is_frozen = name.startswith(f"{frozen}.")
        assert torch.equal(before, trained[name]) == is_frozen, name


def test_frozen_batch_norm_keeps_its_statistics():
    model = nn.Sequential(nn.BatchNorm1d(2), nn.BatchNorm1d(2), nn.Dropout())
    freeze(model, ["0"])
    set_train_mode(model)
    model(torch.randn(5, 2))
    assert model[0].num_batches_tracked == 0
    assert model[1].num_batches_tracked == 1
    assert model[2].training


def test_unknown_names_are_refused():
    model = TransformerLM(9, d_model=8, layers=1, heads=2)
    with pytest.raises(UserError, match=r"train\.freeze: 'embeding': did you mean 'embedding'\?"):
        find_frozen(model, ["embeding"])
    with pytest.raises(UserError, match="'block'"):  # a prefix of a name is no name
        find_frozen(model, ["block"])


def test_a_model_without_trained_weights_is_refused(tmp_path):
    text = toys.write_corpus(tmp_path / "text.txt")
    recipe = toys.corpus_recipe(text, "--train.freeze", '["embedding", "blocks", "norm"]')
    with pytest.raises(UserError, match="there is no weight left to train"):
        train_recipe(recipe, tmp_path / "run", mode="quiet")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("value", ["0", "1.5"])
def test_layer_decay_is_a_fraction(value, tmp_path):
    with pytest.raises(UserError, match=r"train\.layer_decay = .*: expected above 0, to 1"):
        toys.corpus_recipe(tmp_path / "text.txt", "--train.layer_decay", value)
