"""Writing and reading log.jsonl."""

import pytest

from workings.training.logging import Log, read_epochs, read_log


def test_a_record_that_is_written_in_part_is_replaced(tmp_path):
    resource = pytest.importorskip("resource", reason="only Unix limits the size of files")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    path = tmp_path / "log.jsonl"
    log = Log(path, "quiet")
    log.record(kind="first", x=1)
    offset = log.synced_offset()
    resource.setrlimit(resource.RLIMIT_FSIZE, (offset + 10, limits[1]))
    try:
        with pytest.raises(OSError, match=r"log\.jsonl"):
            log.record(kind="second", x=2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [r["kind"] for r in read_log(path)] == ["first"]
    log.rewind(offset)
    log.record(kind="third", x=3)
    log.close()
    assert [r["kind"] for r in read_log(path)] == ["first", "third"]


def test_invalid_records_are_skipped_and_epochs_have_numbers_only(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(
        'not JSON\n[1]\n{"epoch": 1}\n{"kind": 3}\n{"kind": "epoch", "epoch": "1"}\n'
        '{"kind": "epoch", "epoch": 1, "train_loss": 0.5, "note": "x"}\n'
        '{"kind": "sample", "epoch": 1, "sample": "x"}\n{"kind": "epo'
    )
    epoch = {"kind": "epoch", "epoch": 1, "train_loss": 0.5}
    assert read_log(path) == [epoch, {"kind": "sample", "epoch": 1, "sample": "x"}]
    assert read_epochs(path) == [epoch]
