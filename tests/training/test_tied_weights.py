"""Tied weights are stored once in the files of a run, and loaded into every layer that has them."""

import shutil

import pytest
import torch
import toys

from workings.errors import UserError
from workings.modules import unique_state_dict
from workings.storage import read_checkpoint, read_tensors, write_checkpoint, write_tensors
from workings.training.run_folder import compute_run_id
from workings.training.runs import load, resume, train_recipe

OVERRIDES = (
    *("--model.kind", "transformer", "--tokenizer.shared_vocab", "true", "--model.layers", "1"),
    *("--model.heads", "2", "--train.epochs", "2", "--train.average", "ema"),
)
NAMES = ("head.weight", "source_embedding.weight", "target_embedding.weight")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of a translator whose embeddings and head share one matrix, and its task."""
    folder = tmp_path_factory.mktemp("tied")
    pairs = toys.write_pairs(folder / "pairs.tsv", 300)
    recipe = toys.pairs_recipe(pairs, *OVERRIDES)
    return folder / "run", train_recipe(recipe, folder / "run", mode="quiet")


def test_every_weight_is_stored_once(trained):
    run, task = trained
    weights = read_tensors(run / "model.safetensors")
    assert [name for name in NAMES if name in weights] == ["target_embedding.weight"]
    stored = sum(t.nbytes for t in weights.values())
    assert stored == sum(p.nbytes for p in task.model.parameters())
    assert stored <= (run / "model.safetensors").stat().st_size < stored + 10_000
    tensors, _ = read_checkpoint(toys.newest_checkpoint(run))
    assert tensors["model"].keys() == weights.keys()
    assert {f"ema.{name}" for name in weights} == tensors["average"].keys()


def test_a_loaded_model_has_the_weights_in_all_places(trained):
    run, task = trained
    model = load(run).model
    assert model.head.weight is model.source_embedding.weight is model.target_embedding.weight
    for name, tensor in task.model.state_dict().items():
        assert torch.equal(tensor, model.state_dict()[name]), name


def test_a_run_is_resumed_to_the_same_weights(trained, tmp_path):
    run = shutil.copytree(trained[0], tmp_path / "run")
    shutil.rmtree(toys.newest_checkpoint(run))
    (run / "result.json").unlink()
    resume(run)
    assert toys.weights(run) == toys.weights(trained[0])


def test_files_with_every_name_can_be_read(trained, tmp_path):
    """Weights as other programs store them: a tied one under each of its names."""
    run = shutil.copytree(trained[0], tmp_path / "run")
    full = trained[1].model.state_dict()
    assert set(NAMES) < set(full)
    write_tensors(run / "model.safetensors", full, compute_run_id(run))
    assert torch.equal(load(run).model.head.weight, full["head.weight"])
    for folder in (run / "checkpoints").iterdir():
        tensors, state = read_checkpoint(folder)
        embedding = tensors["model"]["target_embedding.weight"]
        tensors["model"] |= dict.fromkeys(NAMES, embedding)
        shutil.rmtree(folder)
        write_checkpoint(folder, tensors, {k: v for k, v in state.items() if k != "tensors"})
    (run / "result.json").unlink()
    resume(run)
    assert (run / "result.json").exists()


def test_a_missing_weight_is_refused(trained, tmp_path):
    run = shutil.copytree(trained[0], tmp_path / "run")
    weights = unique_state_dict(trained[1].model)
    del weights["target_embedding.weight"]
    write_tensors(run / "model.safetensors", weights, compute_run_id(run))
    with pytest.raises(UserError, match="not the weights of this run's model"):
        load(run)
