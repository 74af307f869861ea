"""What the tests of faults share: a fault at a moment, and a run that goes on all the same."""

from contextlib import contextmanager

from workings.cli import main
from workings.training.logging import read_log


def run_and_read_error(capsys, *arguments, status=2):
    """Run the command line: the one line that it ends with."""
    assert main([str(a) for a in (*arguments, "--quiet")]) == status
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("workings: ")
    return lines[0]


def expect_nothing_half_written(run):
    assert [p for p in run.rglob("*") if p.name.startswith(".") and p.name != ".lock"] == []


def expect_to_go_on(run, place):
    """The run is resumed, to the same weights and the same log as if nothing had happened."""
    assert main(["resume", str(run), "--quiet"]) == 0
    whole = place / "whole"
    assert (run / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    newest = "checkpoints/step-28/model.safetensors"
    assert (run / newest).read_bytes() == (whole / newest).read_bytes()
    logs = [
        [{k: v for k, v in r.items() if "seconds" not in k} for r in read_log(f / "log.jsonl")]
        for f in (run, whole)
    ]
    assert logs[0] == logs[1]
    assert [r["kind"] for r in logs[0]] == ["epoch"] * 4 + ["test"]
    expect_nothing_half_written(run)


@contextmanager
def before(monkeypatch, cls, method, fault, when=lambda _self: True):
    """Let something happen just before a method does its work, once."""
    original, done = getattr(cls, method), []

    def with_fault(self, *arguments, **options):
        if not done and when(self):
            done.append(True)
            fault(self)
        return original(self, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(cls, method, with_fault)
        yield
    assert done


def at_step(number):
    return lambda trainer: trainer.progress.step + 1 == number
