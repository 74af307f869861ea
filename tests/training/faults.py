"""Faults at a chosen moment of a training, and the check that its run can be resumed after them."""

from contextlib import contextmanager

from toys import log_without_times, weights

from workings.cli import main


def error_line(capsys, *arguments, status=2):
    """Run a command that must fail; return the one line that it prints."""
    assert main([str(a) for a in (*arguments, "--quiet")]) == status
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("workings: ")
    return lines[0]


def check_no_partial_files(run):
    assert [p for p in run.rglob("*") if p.name.startswith(".") and p.name != ".lock"] == []


def check_resumes(run, reference):
    """Resume a run; its weights and log must be those of the reference run."""
    assert main(["resume", str(run), "--quiet"]) == 0
    expected = reference / "run"
    assert weights(run) == weights(expected)
    newest = "checkpoints/step-28/model.safetensors"
    assert (run / newest).read_bytes() == (expected / newest).read_bytes()
    log = log_without_times(run)
    assert log == log_without_times(expected)
    assert [r["kind"] for r in log] == ["epoch"] * 4 + ["test"]
    check_no_partial_files(run)


@contextmanager
def fault_before(monkeypatch, cls, method, fault, when=lambda _self: True):
    """Call `fault` once before a method, when a condition holds."""
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
    """Return the condition that a trainer's next step has this number."""
    return lambda trainer: trainer.progress.step + 1 == number
