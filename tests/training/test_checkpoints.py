"""Checkpoints that are corrupt or foreign are noticed, and the flat tensors in them."""

import json
import random
import shutil
from pathlib import Path

import pytest
import torch
from damage import CHECKPOINT_DAMAGES, error_message, flip_a_bit, truncate
from toys import list_checkpoints, newest_checkpoint, weights

from workings.distributed import ProcessGroup
from workings.errors import UserError
from workings.recipes import build_recipe
from workings.storage import (
    CorruptFileError,
    read_checkpoint,
    read_json,
    read_tensors,
    write_checkpoint,
    write_json,
    write_tensors,
)
from workings.training.checkpoints import flatten_state, select_rank_rows
from workings.training.runs import load, resume, train_recipe

# -- corrupt checkpoints ---------------------------------------------------------------------------


def check_damage_is_noticed(two_runs, tmp_path, rounds):
    before, newest = list_checkpoints(two_runs / "run")[-2:]
    for seed in range(rounds):
        folder = Path(shutil.copytree(newest, tmp_path / newest.name))
        damage = CHECKPOINT_DAMAGES[seed % len(CHECKPOINT_DAMAGES)]
        damage(folder, before, random.Random(seed))  # noqa: S311
        try:
            error_message(read_checkpoint, folder)
        except BaseException:
            print(seed, damage.__name__)  # noqa: T201
            raise
        shutil.rmtree(folder)


def test_damage_to_a_checkpoint_is_noticed(two_runs, tmp_path):
    check_damage_is_noticed(two_runs, tmp_path, rounds=64)


@pytest.mark.slow
def test_damage_to_a_thousand_checkpoints_is_noticed(two_runs, tmp_path):
    check_damage_is_noticed(two_runs, tmp_path, rounds=1000)


@pytest.mark.parametrize("damage", dict.fromkeys(CHECKPOINT_DAMAGES), ids=lambda d: d.__name__)
def test_resume_uses_the_checkpoint_before_a_corrupt_one(two_runs, run, damage, capsys):
    before, newest = list_checkpoints(run)[-2:]
    damage(newest, before, random.Random(5))  # noqa: S311
    resume(run)
    (line,) = [s for s in capsys.readouterr().err.splitlines() if "cannot be used" in s]
    assert line.startswith(f"{newest.name} cannot be used")
    assert (run / "checkpoints" / f"{newest.name}.corrupt").is_dir()
    for name in ("model.safetensors", f"checkpoints/{newest.name}/model.safetensors"):
        assert (run / name).read_bytes() == (two_runs / "run" / name).read_bytes()


def test_resume_starts_again_after_refusing_once_if_all_checkpoints_are_corrupt(two_runs, run):
    for folder in list_checkpoints(run):
        (folder / "state.json").write_text("{}")
    assert "again starts from the beginning" in error_message(resume, run)
    resume(run, mode="quiet")
    assert weights(run) == weights(two_runs / "run")


def test_a_checkpoint_of_another_run_is_refused(two_runs, run, capsys):
    newest = newest_checkpoint(run)
    shutil.rmtree(newest)
    shutil.copytree(two_runs / "other" / "checkpoints" / newest.name, newest)
    resume(run)
    assert "it belongs to another run" in capsys.readouterr().err


def test_weights_of_another_run_s_checkpoint_are_refused(two_runs, run):
    newest = newest_checkpoint(two_runs / "other")
    shutil.copyfile(newest / "model.safetensors", run / "model.safetensors")
    assert "belongs to another checkpoint or run" in error_message(load, run)


def test_weights_without_the_mark_of_a_run_are_refused(run):
    """Weights of a run before its files had checksums, or of another program."""
    write_tensors(run / "model.safetensors", read_tensors(run / "model.safetensors"))
    assert "belongs to another checkpoint or run" in error_message(load, run)


def test_resume_removes_the_partial_checkpoint_of_a_killed_process(run):
    partial = run / "checkpoints" / ".step-5.part"
    shutil.copytree(list_checkpoints(run)[0], partial)
    resume(run, mode="quiet")
    assert not partial.exists()


def test_a_checkpoint_that_cannot_be_read_for_now_is_not_corrupt(run, monkeypatch):
    def refuse(*_arguments):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("workings.json_files.read_bytes", refuse)
    with pytest.raises(UserError) as caught:
        read_checkpoint(newest_checkpoint(run))
    assert not isinstance(caught.value, CorruptFileError)


@pytest.mark.parametrize("damage", [truncate, flip_a_bit, lambda file, _: file.unlink()])
def test_corrupt_best_weights_are_restored_from_their_checkpoint(two_runs, run, damage, capsys):
    damage(run / "model.safetensors", random.Random(1))  # noqa: S311
    error_message(load, run)
    resume(run)
    assert "written again, from step-" in capsys.readouterr().err
    assert weights(run) == weights(two_runs / "run")


@pytest.mark.parametrize("average", ["none", "ema", "last"])
def test_best_weights_with_tied_embeddings_are_restored(tmp_path, average):
    """Tied weights have two names, of which an average has one."""
    text = tmp_path / "text.txt"
    text.write_text("a rose is a rose is a rose. " * 20)
    table = {
        "task": "language",
        "data": {"set": str(text), "context_length": 8, "eval_every": 2},
        "model": {"kind": "transformer", "d_model": 8, "layers": 1, "heads": 2},
        "train": {"epochs": 2, "batch_size": 2, "average": average, "ema_decay": 0.5},
    }
    train_recipe(build_recipe(table), tmp_path / "run", mode="quiet")
    before = weights(tmp_path / "run")
    (tmp_path / "run" / "model.safetensors").unlink()
    resume(tmp_path / "run", mode="quiet")
    assert weights(tmp_path / "run") == before


def test_a_truncated_log_does_not_make_checkpoints_unusable(two_runs, run, capsys):
    shutil.rmtree(newest_checkpoint(run))
    log = run / "log.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:1]) + lines[1][:20])
    resume(run)
    assert "log.jsonl is shorter than at the checkpoint" in capsys.readouterr().err
    assert not list((run / "checkpoints").glob("*.corrupt"))
    assert [json.loads(line)["kind"] for line in log.read_text().splitlines()]
    assert log.read_text().startswith(lines[0])
    assert weights(run) == weights(two_runs / "run")


# -- invalid checkpoints with correct checksums ----------------------------------------------------


@pytest.mark.parametrize(
    "state",
    [
        {"tensors": {"../evil": "0"}},
        {"tensors": {"/etc/passwd": "0"}},
        {"tensors": {"": "0"}},
        {"tensors": {"model": None}},
        {"tensors": ["model"]},
        {"tensors": {}},
        {},
    ],
)
def test_invalid_states_are_refused(run, state, capsys):
    write_json(newest_checkpoint(run) / "state.json", state)
    resume(run)
    assert "cannot be used" in capsys.readouterr().err


@pytest.mark.parametrize(
    "change",
    [
        {"step": -1}, {"step": 2**70}, {"step": 1.5}, {"step": "9"}, {"step": None}, {"more": 1},
        {"epoch": 10**400}, {"best_metric": float("nan")}, {"seconds": float("inf")},
        {"sums": [1]}, {"sums": {"loss": "x"}}, {"sums": {"loss": float("nan")}},
        {"initial_loss": [1]},
    ],
    ids=str,
)  # fmt: skip
def test_invalid_progress_is_refused(run, change, capsys):
    newest = newest_checkpoint(run)
    state = read_json(newest / "state.json")
    state["progress"] |= change
    write_json(newest / "state.json", state)
    resume(run)
    assert f"{newest.name} cannot be used (it does not fit" in capsys.readouterr().err


@pytest.mark.parametrize("offset", [-1, 0.5, "1", None])
def test_invalid_log_offsets_are_refused(run, offset, capsys):
    path = newest_checkpoint(run) / "state.json"
    write_json(path, read_json(path) | {"log_offset": offset})
    resume(run)
    assert "cannot be used" in capsys.readouterr().err
    assert (run / "log.jsonl").stat().st_size < 10_000


@pytest.mark.parametrize(
    ("file", "name", "change"),
    [
        ("model", "head.bias", lambda t: t[:1]),
        ("model", "head.bias", lambda t: t.double()),
        ("model", "head.bias", lambda t: t * float("nan")),
        ("model", "additional", lambda _: torch.zeros(2)),
        ("optimizer", "0.exp_avg", lambda t: t[:1]),
        ("optimizer", "0.exp_avg", None),
        ("optimizer", "999.exp_avg", lambda _: torch.zeros(2)),
        ("optimizer", "-1.exp_avg", lambda _: torch.zeros(2)),
        ("optimizer", "x", lambda _: torch.zeros(2)),
        ("average", "ema.head.bias", lambda t: t[:1]),
        ("average", "ema.head.bias", None),
        ("average", "last.x.head.bias", lambda _: torch.zeros(2)),
        ("rng", "0.torch", lambda t: t[:9]),
        ("rng", "0.torch", lambda t: t.float()),
    ],
)
def test_tensors_that_do_not_fit_are_refused(two_runs, run, file, name, change, capsys):
    newest = newest_checkpoint(run)
    tensors, state = read_checkpoint(newest)
    if change is None:
        del tensors[file][name]
    else:
        tensors[file][name] = change(tensors[file].get(name)).clone()
    shutil.rmtree(newest)
    write_checkpoint(newest, tensors, {k: v for k, v in state.items() if k != "tensors"})
    resume(run)
    assert "cannot be used" in capsys.readouterr().err
    for name in ("model.safetensors", f"checkpoints/{newest.name}/model.safetensors"):
        assert (run / name).read_bytes() == (two_runs / "run" / name).read_bytes()


def test_links_to_checkpoints_are_not_followed(two_runs, run, capsys):
    before, newest = list_checkpoints(run)[-2:]
    shutil.rmtree(newest)
    newest.symlink_to(two_runs / "run" / "checkpoints" / newest.name)
    (before / "model.safetensors").unlink()
    (before / "model.safetensors").symlink_to(
        two_runs / "run" / "checkpoints" / before.name / "model.safetensors"
    )
    resume(run)
    assert capsys.readouterr().err.count("cannot be used") == 2
    shutil.rmtree(run / "checkpoints")
    (run / "checkpoints").symlink_to(two_runs / "run" / "checkpoints")
    assert "link" in error_message(resume, run)


# -- state of several processes --------------------------------------------------------------------


class OneOfSeveral(ProcessGroup):
    """One process of a group whose others do not exist."""

    def __init__(self, rank, world_size):
        self.device, self.rank, self.world_size = torch.device("cpu"), rank, world_size


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8])
def test_rows_are_redistributed_over_any_number_of_processes(rows):
    state = {"h": torch.randn(rows, 5), "c": torch.randn(rows, 2)}

    def share_of(rank, world_size):
        share = list(OneOfSeveral(rank, world_size).shard_batch(range(rows)))
        return {name: t[share or [0]] for name, t in state.items()}

    for before in (1, 2, 3, 4):
        saved = flatten_state({rank: share_of(rank, before) for rank in range(before)})
        for now in (1, 2, 3, 4):
            for rank in range(now):
                found = select_rank_rows(saved, OneOfSeveral(rank, now), rows)
                expected = share_of(rank, now)
                assert found.keys() == expected.keys()
                assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_an_empty_state_has_no_rows():
    assert select_rank_rows({}, OneOfSeveral(0, 2), 8) == {}


def test_missing_rows_are_refused_before_memory_is_allocated():
    saved = flatten_state({0: {"h": torch.randn(1, 5)}, 1: {"h": torch.randn(3, 5)}})
    with pytest.raises(ValueError, match="1 rows of 4"):
        select_rank_rows(saved, OneOfSeveral(0, 1), 8)
    with pytest.raises(ValueError, match="0 rows of 4"):
        select_rank_rows({"0.h": torch.zeros(0, 2**40)}, OneOfSeveral(0, 1), 4)
