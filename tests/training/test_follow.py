"""A log that is read while it is written, and what it says of the training."""

import json
import math
from pathlib import Path

import pytest

from workings.errors import UserError
from workings.training import monitor
from workings.training.logging import Log
from workings.training.monitor import LogTail, TrainingStatus, extract_numbers
from workings.training.trainer import TrainingProgress


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


def epoch(number, **measured):
    return {
        "kind": "epoch",
        "epoch": number,
        "step": 10 * number,
        "seconds": 2.0 * number,
    } | measured


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.jsonl"


def test_only_what_is_new_is_read(log, monkeypatch):
    followed = LogTail(log)
    assert followed.read() == (0, [])
    log.write_text(lines(epoch(1)))
    assert followed.read() == (1, [epoch(1)])
    assert followed.read()[0] == 1
    read = []
    monkeypatch.setattr(monitor, "parse_records", lambda raw: read.append(raw) or [])
    with log.open("a") as file:
        file.write(lines(epoch(2)))
    assert followed.read()[0] == 2
    assert read == [lines(epoch(2)).encode()]


def test_a_line_that_is_not_whole_waits_for_its_end(log):
    followed, second = LogTail(log), lines(epoch(2, sample="日本"))
    raw = lines(epoch(1)).encode() + second.encode()
    for end in range(len(raw) + 1):  # also in the middle of a letter
        log.write_bytes(raw[:end])
        whole = raw[:end].count(b"\n")
        assert len(followed.read()[1]) == whole


def test_a_log_that_is_cut_back_or_gone_is_read_anew(log):
    followed = LogTail(log)
    log.write_text(lines(epoch(1, seconds=1.0), epoch(2), epoch(3)))
    assert len(followed.read()[1]) == 3
    log.write_text(lines(epoch(1, seconds=1.0)))  # shorter
    assert followed.read()[1] == [epoch(1, seconds=1.0)]
    log.write_text(lines(epoch(1, seconds=1.5), epoch(2), epoch(3)))  # longer, but another
    changes, records = followed.read()
    assert records[0]["seconds"] == 1.5
    log.unlink()
    assert followed.read() == (changes + 1, [])
    log.write_text(lines(epoch(1)))
    assert followed.read() == (changes + 2, [epoch(1)])


def test_what_cannot_be_followed_is_refused(log, monkeypatch, tmp_path):
    log.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="symbolic link"):
        LogTail(log).read()
    log.unlink()
    log.write_text(lines(epoch(1)))
    monkeypatch.setattr(monitor, "MAX_TAIL_BYTES", 10)
    with pytest.raises(UserError, match="too large to follow"):
        LogTail(log).read()


def content(path: Path, steps: int, every: int) -> list[dict]:
    """The marks of a training of one epoch, whose loss is the number of the step."""
    log, progress = Log(path, "quiet", batch_unit="tokens"), TrainingProgress()
    for step in range(1, steps + 1):
        progress.step, progress.num_items = step, 8 * step
        progress.sums = {"loss": progress.sums.get("loss", 0.0) + 8.0 * step}
        progress.seconds = step / 4
        log.log_step(progress, steps * every)
    log.close()
    return LogTail(path).read()[1]


def test_marks_go_by_steps_and_tell_the_mean_since_the_last(log):
    records = content(log, 400, 1)
    assert [r["step"] for r in records] == [100, 200, 300, 400]
    assert [r["tokens"] for r in records] == [800, 1600, 2400, 3200]
    watched = TrainingStatus(records, epochs=1)
    means = [sum(range(a, a + 100)) / 100 for a in (1, 101, 201, 301)]
    assert [value for _, value in watched.train_curve("loss")] == pytest.approx(means)
    assert [place for place, _ in watched.train_curve("loss")] == [0.25, 0.5, 0.75, 1.0]
    assert watched.speed == pytest.approx((32.0, "tokens"))
    assert (watched.step, watched.steps, watched.fraction_done, watched.seconds_left) == (
        400,
        400,
        1.0,
        0.0,
    )
    log.unlink()
    assert len(content(log, 20_000, 3)) == 66  # 200 in all


def test_how_far_it_is_and_how_long_it_takes(log):
    watched = TrainingStatus(
        [epoch(1, evaluation_seconds=0.5), epoch(2, evaluation_seconds=1.5)], 5
    )
    assert (watched.epoch, watched.step, watched.steps) == (2, 20, 50)
    assert watched.fraction_done == pytest.approx(0.4)
    assert watched.seconds_left == pytest.approx(30 * 0.2 + 3 * 1.0)
    assert watched.speed == (5.0, "steps")
    assert watched.state(0) == watched.state(60) == "training"
    assert watched.state(61) == "quiet"
    assert (
        TrainingStatus([epoch(1, seconds=100.0)], 5).state(300) == "training"
    )  # its epochs are long
    done = TrainingStatus([epoch(1), {"kind": "test", "epoch": 1}], 5)
    assert (done.state(1e9), done.fraction_done, done.seconds_left) == ("finished", 1.0, None)
    assert TrainingStatus([], 5).state(1) == "waiting"


def test_now_and_best():
    records = [
        epoch(1, train_loss=2.0, validation_accuracy=0.5),
        epoch(2, train_loss=1.0, validation_accuracy=0.9),
        epoch(3, train_loss=math.nan, validation_accuracy=0.7),
    ]
    loss, accuracy = TrainingStatus(records, 3).best_metrics()
    assert (loss.latest, loss.epoch, loss.best, loss.best_epoch) == (1.0, 2, 1.0, 2)
    assert (accuracy.latest, accuracy.best, accuracy.best_epoch) == (0.7, 0.9, 2)
    assert TrainingStatus(records, 3).list_metrics() == ["accuracy", "loss"]


def test_numbers_that_are_none_are_left_out():
    wild = {"epoch": 10**400, "loss": True, "x": "1", "<b>": 2, "seconds": math.inf, "step": -1}
    measured = {"train_loss": 3.0, "test_loss": math.inf}
    assert extract_numbers(wild | measured) == measured
    assert (
        TrainingStatus([{"kind": "epoch", "epoch": -1, "step": 0}, {"kind": "step"}], 1).curves
        == []
    )
