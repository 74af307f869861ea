"""workings verify: every damaged file of a run is named, and no other."""

import json
import random
import re
import shutil

import pytest
from damage import FILE_DAMAGES
from toys import list_checkpoints

from workings.cli import main
from workings.errors import UserError
from workings.training.log_damage import describe_log_damage, read_checkpoint_states
from workings.training.verify import verify_run

UNCHECKED = ["curves.png", "curves.svg", "report.html"]


def names(run, state):
    return sorted(report.name for report in verify_run(run) if report.state == state)


def list_files(run):
    """Return all files of a run but hidden ones."""
    files = (p.relative_to(run) for p in run.rglob("*") if p.is_file())
    return sorted(p.as_posix() for p in files if not p.name.startswith("."))


def test_every_file_of_an_intact_run_is_listed_once(run):
    assert sorted(report.name for report in verify_run(run)) == list_files(run)
    assert names(run, "damaged") == []
    assert names(run, "unchecked") == UNCHECKED
    assert len(list_checkpoints(run)) == 3


def test_damage_to_any_file_with_a_checksum_is_named_by_that_file_alone(run, tmp_path):
    rng = random.Random(0)  # noqa: S311
    for name in sorted({*list_files(run)} - {*UNCHECKED, "log.jsonl"}):
        copy = shutil.copytree(run, tmp_path / "copy")
        rng.choice(FILE_DAMAGES)(copy / name, rng)
        assert names(copy, "damaged") == [name]
        shutil.rmtree(copy)


@pytest.mark.parametrize("name", ["environment.json", "model.safetensors", "log.jsonl"])
def test_a_missing_file_is_damage(run, name):
    (run / name).unlink()
    assert name in names(run, "damaged")


def test_a_cut_last_line_of_a_log_is_told_apart_from_damage_before_it(run):
    log = run / "log.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole + b'{"kind": "st')
    [report] = [r for r in verify_run(run) if r.name == "log.jsonl"]
    assert report.state == "intact"
    assert "last line is incomplete" in report.reason
    lines = whole.split(b"\n")
    log.write_bytes(b"\n".join([lines[0], lines[1][:9], *lines[2:]]))
    [report] = [r for r in verify_run(run) if r.name == "log.jsonl"]
    assert (report.state, "line 2 is not a record" in report.reason) == ("damaged", True)


def test_a_log_that_ends_before_a_checkpoint_is_damaged(run):
    log = run / "log.jsonl"
    log.write_bytes(log.read_bytes().split(b"\n")[0] + b"\n")
    [report] = [r for r in verify_run(run) if r.name == "log.jsonl"]
    assert report.state == "damaged"
    assert "shorter than at a checkpoint" in report.reason


def test_any_change_of_a_log_before_a_checkpoint_is_damage(run):
    rng, log = random.Random(0), run / "log.jsonl"  # noqa: S311
    whole, end = log.read_bytes(), max(s["log_offset"] for s in read_checkpoint_states(run))
    assert 0 < end <= len(whole)
    assert describe_log_damage(run) == ""
    for _ in range(100):
        at = rng.randrange(end)
        log.write_bytes(whole[:at] + bytes([whole[at] ^ rng.randrange(1, 256)]) + whole[at + 1 :])
        assert describe_log_damage(run).startswith(f"{log}: "), at
    log.write_bytes(whole[: end - 1])
    assert "shorter than at a checkpoint" in describe_log_damage(run)


def change_a_digit(run):
    """Change a number of the log: each line is still a record."""
    log = run / "log.jsonl"
    log.write_bytes(re.sub(rb'"step": \d', b'"step": 9', log.read_bytes(), count=1))


def break_a_line(run):
    log = run / "log.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"kind"', b'"ki d"', 1))


@pytest.mark.parametrize("damage", [change_a_digit, break_a_line])
def test_commands_that_use_a_run_say_that_its_log_is_damaged(run, tmp_path, capsys, damage):
    warning = rf"workings: warning: {re.escape(str(run))}/log.jsonl: .*(changed|not a record)"
    for command in (["evaluate", str(run)], ["diff", str(run), str(run)]):
        main(command)
        assert not re.search(warning, capsys.readouterr().err)
    damage(run)
    record = ["--record", str(tmp_path / "record.json")]
    for command in (["evaluate", str(run), *record], ["diff", str(run), str(run)]):
        main(command)
        assert re.search(warning, capsys.readouterr().err)


def test_a_resumed_run_says_that_the_log_is_damaged_and_removes_partial_files(run, capsys):
    (run / "result.json").unlink()
    (run / ".curves.png.123.part").write_text("of a killed process")
    change_a_digit(run)
    assert main(["resume", str(run)]) == 0
    assert "was changed since the checkpoint" in capsys.readouterr().err
    assert "changed since a checkpoint was written" in (run / "report.html").read_text()
    assert not list(run.glob(".*.part"))


def test_files_of_another_run_are_damage(two_runs, run):
    shutil.copy(two_runs / "other" / "model.safetensors", run)
    old = list_checkpoints(run)[0]
    shutil.copytree(two_runs / "other" / "checkpoints" / old.name, old, dirs_exist_ok=True)
    damaged = names(run, "damaged")
    assert "model.safetensors" in damaged
    assert f"checkpoints/{old.name}/state.json" in damaged


def test_exit_status_and_output_of_the_command(run, capsys):
    assert main(["verify", str(run)]) == 0
    assert capsys.readouterr().out.endswith("no file is damaged\n")
    (run / "labels.json").write_text("{}")
    assert main(["verify", str(run)]) == 1
    printed = capsys.readouterr().out
    assert "damaged    labels.json: changed or corrupted since the run was started\n" in printed
    assert main(["verify", str(run), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["damaged"] == 1


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(UserError, match="not a run"):
        verify_run(tmp_path)
