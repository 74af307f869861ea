"""Checkpoints and run folders that are damaged or foreign: noticed, every time."""

import json
import random
import shutil
from pathlib import Path

import pytest
from damage import LOADED, OF_A_CHECKPOINT, OF_A_FILE, flip_a_bit, refused, steps, truncate

from workings.config import build
from workings.errors import UserError
from workings.recipes import LanguageRecipe
from workings.storage import (
    CorruptFileError,
    read_checkpoint,
    read_json,
    read_tensors,
    write_json,
    write_tensors,
)
from workings.training.runs import load, resume, train_recipe


def notice(made, tmp_path, rounds):
    before, newest = steps(made / "run")[-2:]
    for seed in range(rounds):
        draw = random.Random(seed)  # noqa: S311
        folder = Path(shutil.copytree(newest, tmp_path / newest.name))
        damage = OF_A_CHECKPOINT[seed % len(OF_A_CHECKPOINT)]
        damage(folder, before, draw)
        try:
            refused(read_checkpoint, folder)
        except BaseException:
            print(seed, damage.__name__)  # noqa: T201
            raise
        shutil.rmtree(folder)


def test_a_damaged_checkpoint_is_noticed(made, tmp_path):
    notice(made, tmp_path, rounds=64)


@pytest.mark.slow
def test_a_thousand_damaged_checkpoints_are_noticed(made, tmp_path):
    notice(made, tmp_path, rounds=1000)


@pytest.mark.parametrize("damage", dict.fromkeys(OF_A_CHECKPOINT), ids=lambda d: d.__name__)
def test_the_one_before_is_used_and_the_end_is_the_same(made, run, damage, capsys):
    before, newest = steps(run)[-2:]
    damage(newest, before, random.Random(5))  # noqa: S311
    resume(run)
    (line,) = [s for s in capsys.readouterr().err.splitlines() if "cannot be used" in s]
    assert line.startswith(f"{newest.name} cannot be used")
    assert (run / "checkpoints" / f"{newest.name}.corrupt").is_dir()
    for name in ("model.safetensors", f"checkpoints/{newest.name}/model.safetensors"):
        assert (run / name).read_bytes() == (made / "run" / name).read_bytes()


def test_where_none_can_be_used_the_second_try_begins_anew(made, run):
    for folder in steps(run):
        (folder / "state.json").write_text("{}")
    assert "again starts from the beginning" in refused(resume, run)
    resume(run, mode="quiet")
    assert (run / "model.safetensors").read_bytes() == (
        made / "run" / "model.safetensors"
    ).read_bytes()


def test_a_whole_checkpoint_of_another_run_is_refused(made, run, capsys):
    newest = steps(run)[-1]
    shutil.rmtree(newest)
    shutil.copytree(made / "other" / "checkpoints" / newest.name, newest)
    resume(run)
    assert "it belongs to another run" in capsys.readouterr().err


def test_what_a_killed_process_left_is_cleared_up(made, run):
    rest = run / "checkpoints" / ".step-5.part"
    shutil.copytree(steps(run)[0], rest)
    resume(run, mode="quiet")
    assert not rest.exists()


def test_a_run_without_its_environment_says_so(run):
    (run / "environment.json").unlink()
    assert refused(load, run).endswith("environment.json: missing")


def test_one_that_cannot_be_read_for_now_is_not_put_aside(run, monkeypatch):
    def refuse(*_arguments):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("workings.storage.read_bytes", refuse)
    folder = steps(run)[-1]
    with pytest.raises(UserError) as caught:
        read_checkpoint(folder)
    assert not isinstance(caught.value, CorruptFileError)


# -- what load reads -------------------------------------------------------------------------------


def notice_in_run(made, tmp_path, rounds):
    for seed in range(rounds):
        draw = random.Random(seed)  # noqa: S311
        folder = tmp_path / "loaded"
        folder.mkdir()
        for name in LOADED:
            shutil.copy(made / "run" / name, folder)
        file, damage = folder / LOADED[seed % len(LOADED)], draw.choice([*OF_A_FILE, None, "other"])
        if damage is None:
            file.unlink()
        elif damage == "other" and file.name in ("config.toml", "model.safetensors"):
            shutil.copy(made / "other" / file.name, file)
        else:
            (flip_a_bit if damage == "other" else damage)(file, draw)
        try:
            refused(load, folder)
        except BaseException:
            print(seed, file.name, damage)  # noqa: T201
            raise
        shutil.rmtree(folder)


def test_damage_to_what_is_loaded_is_noticed(made, tmp_path):
    notice_in_run(made, tmp_path, rounds=100)


@pytest.mark.slow
def test_a_thousand_damages_to_what_is_loaded_are_noticed(made, tmp_path):
    notice_in_run(made, tmp_path, rounds=1000)


def test_a_changed_recipe_is_not_resumed(run):
    config = run / "config.toml"
    config.write_text(config.read_text().replace("batch_size = 16", "batch_size = 8"))
    assert "config.toml: changed or corrupted since the run was started" in refused(resume, run)


def test_a_run_of_an_older_version_is_still_read(run):
    """Before files had checksums in environment.json, and weights a mark."""
    environment = read_json(run / "environment.json")
    del environment["files"]
    write_json(run / "environment.json", environment)
    write_tensors(run / "model.safetensors", read_tensors(run / "model.safetensors"))
    assert load(run).labels == ("fruit", "metal")


@pytest.mark.parametrize("harm", [truncate, flip_a_bit, lambda file, _: file.unlink()])
def test_the_best_weights_are_written_again_from_their_checkpoint(made, run, harm, capsys):
    harm(run / "model.safetensors", random.Random(1))  # noqa: S311
    refused(load, run)
    resume(run)
    assert "written again, from step-" in capsys.readouterr().err
    assert (run / "model.safetensors").read_bytes() == (
        made / "run" / "model.safetensors"
    ).read_bytes()


@pytest.mark.parametrize("average", ["none", "ema", "last"])
def test_the_best_weights_of_a_model_whose_head_is_its_embedding(tmp_path, average):
    """They have two names, of which an average knows one."""
    text = tmp_path / "text.txt"
    text.write_text("a rose is a rose is a rose. " * 20)
    recipe = build(
        LanguageRecipe,
        {
            "data": {"set": str(text), "context_length": 8, "eval_every": 2},
            "model": {"kind": "transformer", "d_model": 8, "layers": 1, "heads": 2},
            "train": {"epochs": 2, "batch_size": 2, "average": average, "ema_decay": 0.5},
        },
    )
    train_recipe(recipe, tmp_path / "run", mode="quiet")
    weights = tmp_path / "run" / "model.safetensors"
    before = weights.read_bytes()
    weights.unlink()
    resume(tmp_path / "run", mode="quiet")
    assert weights.read_bytes() == before


def test_a_log_that_lost_its_end_costs_no_checkpoint(made, run, capsys):
    shutil.rmtree(steps(run)[-1])
    log = run / "log.jsonl"
    whole = log.read_text().splitlines(keepends=True)
    log.write_text("".join(whole[:1]) + whole[1][:20])
    resume(run)
    assert "log.jsonl is shorter than at the checkpoint" in capsys.readouterr().err
    assert not list((run / "checkpoints").glob("*.corrupt"))
    assert [json.loads(line)["kind"] for line in log.read_text().splitlines()]
    assert log.read_text().startswith(whole[0])
    assert (run / "model.safetensors").read_bytes() == (
        made / "run" / "model.safetensors"
    ).read_bytes()
