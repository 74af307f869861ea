"""A log that is read while it is written, and the progress of its training."""

import json
import math
from itertools import pairwise

import pytest

from workings.errors import UserError
from workings.training import monitor
from workings.training.logging import Log
from workings.training.monitor import LogTail, TrainingStatus, extract_numbers
from workings.training.trainer import TrainingProgress


def to_lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


def epoch(number, **metrics):
    record = {"kind": "epoch", "epoch": number, "step": 10 * number, "seconds": 2.0 * number}
    return record | metrics


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.jsonl"


def test_only_new_lines_are_parsed(log, monkeypatch):
    tail = LogTail(log)
    assert tail.read() == (0, [])
    log.write_text(to_lines(epoch(1)))
    revision, records = tail.read()
    assert records == [epoch(1)]
    assert tail.read()[0] == revision != 0
    parsed = []
    monkeypatch.setattr(monitor, "parse_records", lambda raw: parsed.append(raw) or [])
    with log.open("a") as file:
        file.write(to_lines(epoch(2)))
    assert tail.read()[0] not in (0, revision)
    assert parsed == [to_lines(epoch(2)).encode().rstrip()]


def test_an_incomplete_line_is_read_when_it_is_complete(log):
    tail, second = LogTail(log), to_lines(epoch(2, sample="日本"))
    raw = to_lines(epoch(1)).encode() + second.encode()
    for end in range(len(raw) + 1):  # also within a character
        log.write_bytes(raw[:end])
        assert len(tail.read()[1]) == raw[:end].count(b"\n")


def test_a_truncated_or_missing_log_is_read_again(log):
    tail = LogTail(log)
    log.write_text(to_lines(epoch(1, seconds=1.0), epoch(2), epoch(3)))
    assert len(tail.read()[1]) == 3
    log.write_text(to_lines(epoch(1, seconds=1.0)))  # shorter
    assert tail.read()[1] == [epoch(1, seconds=1.0)]
    log.write_text(to_lines(epoch(1, seconds=1.5), epoch(2), epoch(3)))  # longer, but different
    revision, records = tail.read()
    assert records[0]["seconds"] == 1.5
    log.unlink()
    assert tail.read() == (0, [])
    log.write_text(to_lines(epoch(1)))
    assert tail.read()[1] == [epoch(1)]
    assert tail.read()[0] not in (0, revision)


def test_readers_of_the_same_lines_have_the_same_revision(log):
    """Several processes answer for one page, and each reads the log by itself."""
    early, revisions = LogTail(log), []
    for number in range(1, 6):
        with log.open("a") as file:
            file.write(to_lines(epoch(number)))
        revisions.append(early.read()[0])
        assert LogTail(log).read()[0] == revisions[-1]
    assert len(set(revisions)) == 5
    log.write_text(to_lines(*(epoch(number, seconds=0.5) for number in range(1, 6))))
    assert early.read()[0] == LogTail(log).read()[0] != revisions[-1]


def test_links_and_large_logs_are_refused(log, monkeypatch, tmp_path):
    log.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="symbolic link"):
        LogTail(log).read()
    log.unlink()
    log.write_text(to_lines(epoch(1)))
    monkeypatch.setattr(monitor, "MAX_TAIL_BYTES", 10)
    with pytest.raises(UserError, match="too large to follow"):
        LogTail(log).read()


def test_of_a_long_log_evenly_spaced_and_the_latest_records_are_kept(log, monkeypatch):
    monkeypatch.setattr(monitor, "MAX_RECORDS", 100)
    monkeypatch.setattr(monitor, "_CHUNK_BYTES", 3_000)
    tail, count = LogTail(log), 5_000
    for start in range(0, count, 500):
        with log.open("a") as file:
            file.write(to_lines(*(epoch(n) for n in range(start + 1, start + 501))))
        numbers = [record["epoch"] for record in tail.read()[1]]
        assert numbers == sorted(set(numbers))
        assert len(numbers) <= 200
        assert numbers[-1] == start + 500
        spacing = {b - a for a, b in pairwise(numbers[:40])}
        assert len(spacing) == 1
    whole = LogTail(log).read()[1]
    assert [record["epoch"] for record in whole] == numbers  # read at once or as it grew


def test_a_line_of_thousands_of_measures_is_damage(log):
    """Else each look at it would take seconds."""
    log.write_text(to_lines(epoch(1), epoch(2, **{f"train_m{k}": 1 for k in range(2_000)})))
    tail = LogTail(log)
    assert tail.read()[1] == [epoch(1)]
    assert tail.damage == "line 2 is not a record"


def test_a_line_without_end_is_refused(log, monkeypatch):
    monkeypatch.setattr(monitor, "_CHUNK_BYTES", 1_000)
    log.write_text(to_lines(epoch(1)) + "x" * 1_000)
    with pytest.raises(UserError, match="a line is too long"):
        LogTail(log).read()


def test_many_different_metrics_are_read_in_linear_time(monkeypatch):
    looks = []
    monkeypatch.setattr(monitor, "split_metric_name", lambda key: looks.append(key) or ("a", key))
    records = [epoch(n, **{f"validation_m{n}": 1.0}) for n in range(1, 2_001)]
    assert len(TrainingStatus(records, 2_000).best_metrics()) == monitor.MAX_METRICS
    assert len(looks) <= 3 * sum(map(len, records))


def write_steps(path, steps, epochs):
    """Log one epoch of several, in which the loss is the number of the step."""
    log, progress = Log(path, "quiet", batch_unit="tokens"), TrainingProgress()
    for step in range(1, steps + 1):
        progress.step, progress.num_items = step, 8 * step
        progress.sums = {"loss": progress.sums.get("loss", 0.0) + 8.0 * step}
        progress.seconds = step / 4
        log.log_step(progress, steps * epochs)
    log.close()
    return LogTail(path).read()[1]


def test_step_records_give_the_mean_since_the_last_one(log):
    records = write_steps(log, 400, 1)
    assert [r["step"] for r in records] == [100, 200, 300, 400]
    assert [r["tokens"] for r in records] == [800, 1600, 2400, 3200]
    status = TrainingStatus(records, epochs=1)
    means = [sum(range(a, a + 100)) / 100 for a in (1, 101, 201, 301)]
    curve = status.train_curve("loss")
    assert [value for _, value in curve] == pytest.approx(means)
    assert [epochs for epochs, _ in curve] == [0.25, 0.5, 0.75, 1.0]
    assert status.speed == pytest.approx((32.0, "tokens"))
    assert (status.step, status.steps) == (400, 400)
    assert (status.fraction_done, status.seconds_left) == (1.0, 0.0)
    log.unlink()
    assert len(write_steps(log, 20_000, 3)) == 66  # 200 in all three


def test_progress_and_remaining_time():
    records = [epoch(1, evaluation_seconds=0.5), epoch(2, evaluation_seconds=1.5)]
    status = TrainingStatus(records, 5)
    assert (status.epoch, status.step, status.steps) == (2, 20, 50)
    assert status.fraction_done == pytest.approx(0.4)
    assert status.seconds_left == pytest.approx(30 * 0.2 + 3 * 1.0)
    assert status.speed == (5.0, "steps")
    assert status.state(0) == status.state(60) == "training"
    assert status.state(61) == "quiet"
    with_long_epochs = TrainingStatus([epoch(1, seconds=100.0)], 5)
    assert with_long_epochs.state(300) == "training"
    done = TrainingStatus([epoch(1), {"kind": "test", "epoch": 1}], 5)
    assert (done.state(1e9), done.fraction_done, done.seconds_left) == ("finished", 1.0, None)
    assert TrainingStatus([], 5).state(1) == "waiting"


def test_latest_and_best_metrics():
    records = [
        epoch(1, train_loss=2.0, validation_accuracy=0.5),
        epoch(2, train_loss=1.0, validation_accuracy=0.9),
        epoch(3, train_loss=math.nan, validation_accuracy=0.7),
    ]
    status = TrainingStatus(records, 3)
    loss, accuracy = status.best_metrics()
    assert (loss.latest, loss.epoch, loss.best, loss.best_epoch) == (1.0, 2, 1.0, 2)
    assert (accuracy.latest, accuracy.best, accuracy.best_epoch) == (0.7, 0.9, 2)
    assert status.list_metrics() == ["accuracy", "loss"]


def test_invalid_numbers_are_left_out():
    invalid = {"epoch": 10**400, "loss": True, "x": "1", "<b>": 2, "seconds": math.inf, "step": -1}
    metrics = {"train_loss": 3.0, "test_loss": math.inf}
    assert extract_numbers(invalid | metrics) == metrics
    records = [{"kind": "epoch", "epoch": -1, "step": 0}, {"kind": "step"}]
    assert TrainingStatus(records, 1).curves == []
