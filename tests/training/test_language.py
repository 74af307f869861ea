"""Language models from beginning to end, on a text that the test writes itself."""

import json
import math
import re
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from workings.cli.train import keys_help
from workings.config import build, override
from workings.decode.sampling import Sampling
from workings.distributed import ProcessGroup
from workings.errors import UserError
from workings.recipes import LanguageRecipe, read_recipe
from workings.tasks.classification import Classification
from workings.tasks.language_modeling import LanguageModeling
from workings.training.report import write_report
from workings.training.runs import load, load_as, resume, train_recipe
from workings.training.trainer import Trainer, TrainingInterrupt

ALONE = ProcessGroup(torch.device("cpu"))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def text(tmp_path):
    """A text that can be predicted, but not from the last character alone."""
    path = tmp_path / "text.txt"
    path.write_text("hello world, yellow mellow fellow\n" * 60)
    return path


TRANSFORMER = {"kind": "transformer", "d_model": 16, "layers": 1, "heads": 2, "dropout": 0.1}


def recipe_for(text, *changes, model=TRANSFORMER):
    table = {
        "task": "language",
        "data": {"set": str(text), "context_length": 16, "eval_every": 12, "sample": 10},
        "model": model,
        "train": {"epochs": 3, "batch_size": 8, "learning_rate": 0.01},
    }
    return build(LanguageRecipe, override(table, changes))


def recurrent(text, *changes, cell="lstm"):
    model = {"kind": "recurrent", "cell": cell, "hidden_size": 24, "d_model": 8, "dropout": 0.1}
    return recipe_for(text, *changes, model=model)


def test_learns_completes_and_is_loaded_again(text, tmp_path):
    task = train_recipe(
        recipe_for(text, "--train.epochs", "8", "--data.eval_every", "30", "--seed", "3"),
        tmp_path / "run",
        mode="quiet",
    )
    assert "yellow" in task.complete("hello world, ye", 6)
    again = load_as(LanguageModeling, tmp_path / "run")
    assert again.complete("hello w", 20) == task.complete("hello w", 20)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["validation_loss"] < 1.0
    assert result["validation_perplexity"] == pytest.approx(math.exp(result["validation_loss"]))
    bits = result["validation_loss"] / math.log(2)
    assert result["validation_bits_per_character"] == pytest.approx(bits)
    measured = again.evaluate_on()
    assert measured == pytest.approx({name: result[name] for name in measured}, abs=1e-4)
    assert {"validation_loss", "sliding_loss"} <= measured.keys()
    assert again.evaluate_on(str(text))["test_loss"] < 1.0
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    kinds = [r["kind"] for r in log]
    assert [kind for kind in kinds if kind != "step"] == ["epoch", "sample"] * 8 + ["test"]
    marks = [r for r in log if r["kind"] == "step"]
    assert [r["step"] for r in marks] == list(range(100, marks[-1]["steps"] + 1, 100))
    assert all(len(r["sample"]) == 30 for r in log if r["kind"] == "sample")
    assert "after epoch 8" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize("stride", [16, 8, 5])
@pytest.mark.parametrize("length", [2, 7, 17, 40, 70])
def test_every_held_out_token_is_counted_once_with_the_context_that_is_said(text, length, stride):
    task = LanguageModeling.from_recipe(recipe_for(text))
    task.model.eval()
    ids = np.asarray(task.tokenizer.encode(text.read_text())[:length], np.uint16)
    total = 0.0
    for k in range(1, length):  # one at a time
        begin = max(0, (math.ceil(k / stride)) * stride - 16)
        with torch.no_grad():
            scores, _ = task.model(torch.from_numpy(ids[begin:k].astype(np.int64)).unsqueeze(0))
        total += float(F.cross_entropy(scores[0, -1], torch.tensor(int(ids[k]))))
    found = task._evaluate_ids(ids, ALONE, stride)["loss"]
    assert found == pytest.approx(total / (length - 1), rel=1e-4)


def test_a_size_alone_does_not_change_the_kind_of_token(text):
    assert recipe_for(text).tokenizer.kind == "characters"
    assert recipe_for(text, "--tokenizer.min_count", "2").tokenizer.kind == "characters"
    told = keys_help().partition("with task = language:")[2]
    assert re.search(r"tokenizer.kind .* \[characters\]", told)
    assert re.search(r"tokenizer.vocab_size .* \[1000\]", told)


def test_an_unknown_character_is_one_character(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("abcdefgh" * 60)
    task = LanguageModeling.from_recipe(recipe_for(path, "--tokenizer.vocab_size", "6"))
    assert task.tokenizer.unk_id in task._validation_ids
    found = task.evaluate(ALONE)
    bits = found["validation_loss"] / math.log(2)
    assert found["validation_bits_per_character"] == pytest.approx(bits)


def test_long_windows_are_measured_a_few_at_a_time(text, monkeypatch):
    task = LanguageModeling.from_recipe(recipe_for(text))
    task.model.eval()
    found, sizes = task.evaluate(ALONE), []
    task.model.register_forward_pre_hook(lambda _, given: sizes.append(given[0].numel()))
    room = 3 * 16 * len(task.tokenizer)  # of three windows
    monkeypatch.setattr("workings.tasks.language_modeling.MAX_LOGITS", room)
    assert task.evaluate(ALONE) == pytest.approx(found, rel=1e-5)
    assert max(sizes) == 3 * 16


CARRIED = ["--data.stateful", "true"]
MUON = ["--train.optimizer", "muon"]
FORCED = ["--scheduled_sampling.rate", "0.5"]


@pytest.mark.parametrize(
    ("kind", "changes"),
    [("transformer", []), ("transformer", MUON), ("lstm", CARRIED), ("gru", FORCED), ("rnn", [])],
)
def test_a_stopped_run_goes_on_as_if_nothing_had_happened(
    text, tmp_path, monkeypatch, kind, changes
):
    recipe = (
        recipe_for(text, *changes)
        if kind == "transformer"
        else recurrent(text, *changes, cell=kind)
    )
    train_recipe(recipe, tmp_path / "whole", mode="quiet")
    step = Trainer._step

    def stop_at_seventeen(self, group):
        step(self, group)
        self._stop_signal = 2 * (self.progress.step == 17)  # in the middle of the second epoch

    monkeypatch.setattr(Trainer, "_step", stop_at_seventeen)
    with pytest.raises(TrainingInterrupt):
        train_recipe(recipe, tmp_path / "stopped", mode="quiet")
    monkeypatch.setattr(Trainer, "_step", step)
    resume(tmp_path / "stopped", mode="quiet")
    whole, stopped = (
        (tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "stopped")
    )
    assert whole == stopped


def test_carried_windows_follow_each_other_through_the_text(text):
    task = LanguageModeling.from_recipe(
        recurrent(text, "--data.stateful", "true", "--data.eval_every", "20")
    )
    batches = task.batches(0)
    length = (len(task._train_ids) - 1) // 8
    assert batches[0] == [row * length for row in range(8)]
    for before, after in pairwise(batches):
        assert after[0] in (before[0] + 16, 0)
        assert [b - after[0] for b in after] == batches[0]


def test_what_is_carried_is_the_state_at_the_end_of_the_window_before(text):
    task = LanguageModeling.from_recipe(recurrent(text, "--data.stateful", "true"))
    task.model.eval()
    first, second, *_ = task.batches(0)
    task.loss(first, ALONE.device)
    found = task.loss(second, ALONE.device).mean
    ids = torch.from_numpy(np.stack([task._train_ids[b : b + 33] for b in first]).astype(np.int64))
    scores, _ = task.model(ids[:, :32])
    expected = F.cross_entropy(scores[:, 16:].flatten(0, 1), ids[:, 17:].flatten())
    torch.testing.assert_close(found, expected)


def test_student_forcing_follows_its_schedule(text):
    forcing = [
        "--scheduled_sampling.rate",
        "0.6",
        "--scheduled_sampling.from_epoch",
        "1",
        "--scheduled_sampling.ramp_epochs",
        "2",
    ]
    task = LanguageModeling.from_recipe(recurrent(text, *forcing))
    shares = []
    for epoch in range(5):
        task.batches(epoch)
        shares.append(round(task._sampling_rate, 2))
    assert shares == [0.0, 0.0, 0.3, 0.6, 0.6]


def test_a_student_who_is_never_asked_is_taught(text):
    task = LanguageModeling.from_recipe(recurrent(text, "--scheduled_sampling.rate", "0.5"))
    task.model.eval()
    batch = task.batches(0)[0]
    taught = task.loss(batch, ALONE.device).mean
    task._sampling_rate = 1e-12  # it goes step by step, and never takes its own
    torch.testing.assert_close(task.loss(batch, ALONE.device).mean, taught)
    task._sampling_rate = 1.0
    assert task.loss(batch, ALONE.device).mean.item() != pytest.approx(taught.item(), abs=1e-6)


def test_the_vocabulary_is_that_of_the_part_learned_from(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("ab" * 200 + "cd" * 20)
    task = LanguageModeling.from_recipe(recipe_for(path))
    assert len(task.tokenizer) == 5
    assert set(task._validation_ids[-10:].tolist()) == {task.tokenizer.unk_id}


@pytest.mark.parametrize("kind", ["characters", "byte-pair"])
@pytest.mark.parametrize("reversed_ids", [False, True])
def test_what_is_held_out_begins_where_the_vocabulary_ends(
    tmp_path, monkeypatch, kind, reversed_ids
):
    monkeypatch.setattr("workings.data.corpora.CHUNK_CHARACTERS", 100)
    plain, odd = "the cat sat on the mat\n" * 40, "Zyx9! wvU8? tsR7;\n" * 8
    text = odd + plain if reversed_ids else plain + odd  # in few tokens, or in many, at the end
    (tmp_path / "text.txt").write_text(text)
    changes = ["--tokenizer.kind", kind, "--tokenizer.vocab_size", "300"]
    task = LanguageModeling.from_recipe(recipe_for(tmp_path / "text.txt", *changes))
    cut = int(len(text) * 0.9)
    assert task.tokenizer.decode(task._train_ids.tolist()) == text[:cut]
    if kind == "byte-pair":  # it spells whatever comes
        assert task.tokenizer.decode(task._validation_ids.tolist()) == text[cut:]


@pytest.mark.parametrize(
    ("content", "said"),
    [("", "it is empty"), ("x", "a single character"), ("xyz", "too few")],
)
def test_too_little_text(tmp_path, content, said):
    path = tmp_path / "text.txt"
    path.write_text(content)
    with pytest.raises(UserError, match=said):
        train_recipe(recipe_for(path), tmp_path / "run", mode="quiet")


def test_too_many_streams(text, tmp_path):
    with pytest.raises(UserError, match=r"a smaller train\.batch_size or data\.context_length"):
        train_recipe(
            recurrent(text, "--data.stateful", "true", "--train.batch_size", "500"),
            tmp_path / "run",
            mode="quiet",
        )


def test_what_is_for_recurrent_models_only(text):
    with pytest.raises(UserError, match="for recurrent models"):
        recipe_for(text, "--data.stateful", "true")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["--scheduled_sampling.rate", "1.5"], r"scheduled_sampling\.rate = 1\.5: from 0 to 1"),
        (["--scheduled_sampling.rate", "-0.1"], "from 0 to 1"),
        (
            ["--scheduled_sampling.rate", "0.5", "--data.stateful", "true"],
            "exclude each other",
        ),
    ],
)
def test_forcing_that_cannot_be(text, changes, said):
    with pytest.raises(UserError, match=said):
        recurrent(text, *changes)


def test_a_window_has_no_more_tokens_than_there_are_positions(text):
    learned = {**TRANSFORMER, "positions": "learned", "max_positions": 16}
    assert recipe_for(text, model=learned).data.context_length == 16
    with pytest.raises(
        UserError, match=r"data\.context_length = 17: the model has only model\.max_positions = 16"
    ):
        recipe_for(text, "--data.context_length", "17", model=learned)


def test_what_the_user_should_know_of_a_prompt(text):
    task = LanguageModeling.from_recipe(recipe_for(text))
    assert task.list_prompt_notes("hello", 5) == []
    assert "an empty prompt" in task.list_prompt_notes("", 5)[0]
    assert "never seen in training, read as unknown: Z é" in task.list_prompt_notes("Zé", 5)[0]
    assert (
        "more than the 16 of the windows it was trained on"
        in task.list_prompt_notes("hello", 100)[0]
    )
    learned = recipe_for(text, model={**TRANSFORMER, "positions": "learned", "max_positions": 20})
    assert (
        "reads the later half"
        in LanguageModeling.from_recipe(learned).list_prompt_notes("hello", 100)[0]
    )
    assert LanguageModeling.from_recipe(recurrent(text)).list_prompt_notes("hello", 100) == []


def test_stop_strings_end_a_text_and_are_never_seen_in_part(text, tmp_path):
    task = train_recipe(
        recipe_for(text, "--train.epochs", "8", "--data.eval_every", "30", "--seed", "3"),
        tmp_path / "run",
        mode="quiet",
    )
    whole = task.complete("hello world, ", 12)
    assert "yellow" in whole
    pieces = [told.text for told in task.stream("hello world, ", 12, stop_strings=["llow"])]
    assert "".join(pieces) == "ye"
    assert not any("l" in piece for piece in pieces)
    assert task.complete("hello world, ", 12, stop_strings=["zzz"]) == whole
    seeds = {task.complete("h", 30, Sampling(temperature=3.0, seed=seed)) for seed in range(4)}
    assert len(seeds) == 4


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_cannot_be_compared_chooses_nothing(text, tmp_path, monkeypatch, value):
    evaluate, epochs = LanguageModeling.evaluate, []

    def spoilt(self, group):
        epochs.append(1)
        return evaluate(self, group) | ({"validation_loss": value} if len(epochs) == 2 else {})

    monkeypatch.setattr(LanguageModeling, "evaluate", spoilt)
    with pytest.raises(UserError, match=r"the validation loss is .* after step 24.* is .*step-12"):
        train_recipe(recipe_for(text), tmp_path / "run", mode="quiet")
    monkeypatch.setattr(LanguageModeling, "evaluate", evaluate)
    resume(tmp_path / "run", mode="quiet")
    train_recipe(recipe_for(text), tmp_path / "whole", mode="quiet")
    whole, stopped = ((tmp_path / n / "model.safetensors").read_bytes() for n in ("whole", "run"))
    assert whole == stopped


def test_what_was_held_out_of_another_text_is_not_measured(text, tmp_path):
    train_recipe(recipe_for(text, "--train.epochs", "1"), tmp_path / "run", mode="quiet")
    text.write_text("of another text, " + text.read_text())
    task = load_as(LanguageModeling, tmp_path / "run")
    with pytest.raises(UserError, match="is not what this run was trained on"):
        task.evaluate_on()
    assert task.evaluate_on(str(text))["test_loss"] > 0


def test_a_remark_that_says_nothing_does_not_spoil_the_report(text, tmp_path):
    run = tmp_path / "run"
    task = train_recipe(recipe_for(text, "--train.epochs", "1"), run, mode="quiet")
    with (run / "log.jsonl").open("a") as log:
        log.write('{"kind": "sample"}\n{"kind": "sample", "epoch": "2", "sample": 7}\n')
    write_report(run, task)
    assert (run / "report.html").read_text().count("after epoch") == 1


def test_a_run_of_another_task_is_told(text, tmp_path):
    train_recipe(recipe_for(text, "--train.epochs", "1"), tmp_path / "run", mode="quiet")
    told = "of the task 'language', for `workings complete`: one of 'classify' is needed here"
    with pytest.raises(UserError, match=told):
        load_as(Classification, tmp_path / "run")
    assert isinstance(load(tmp_path / "run"), LanguageModeling)
    assert read_recipe(tmp_path / "run" / "config.toml").task == "language"
