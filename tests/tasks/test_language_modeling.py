"""Language modeling: batches, losses, evaluation in windows, and completions."""

import math
import os
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import toys

from workings.cli.train import keys_help
from workings.data.tokenizers.base import train_tokenizer
from workings.decode import Sampling, generate
from workings.distributed import ProcessGroup
from workings.errors import UserError
from workings.models.language import build_language_model
from workings.tasks import language_modeling
from workings.tasks.language_modeling import (
    LanguageModeling,
    list_non_text_ids,
    stream_completion,
)
from workings.training.logging import read_log
from workings.training.runs import load

CPU = torch.device("cpu")
LOCAL = ProcessGroup(CPU)


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def text(tmp_path):
    return toys.write_corpus(tmp_path / "text.txt")


@pytest.fixture
def task(text):
    return LanguageModeling.from_recipe(toys.corpus_recipe(text))


# -- recipes and data ------------------------------------------------------------------------------


def test_the_tokenizer_is_of_characters_by_default(text):
    assert toys.corpus_recipe(text).tokenizer.kind == "characters"
    assert toys.corpus_recipe(text, "--tokenizer.min_count", "2").tokenizer.kind == "characters"
    keys = keys_help().partition("with task = language:")[2]
    assert re.search(r"tokenizer.kind [^\[]*\[characters\]", keys)
    assert re.search(r"tokenizer.vocab_size .* \[1000\]", keys)


def test_a_token_cache_cut_short_under_a_training_is_an_error(task, tmp_path):
    for file in (tmp_path / "cache").rglob("*.uint16"):
        os.truncate(file, 10)
    with pytest.raises(UserError, match=r"cut short while it was in use: start or resume"):
        task.loss([100, 200], CPU)


def test_settings_for_recurrent_models_only(text):
    with pytest.raises(UserError, match=r"data\.stateful is for recurrent models"):
        toys.corpus_recipe(text, "--data.stateful", "true")
    with pytest.raises(UserError, match="scheduled_sampling is for recurrent models"):
        toys.corpus_recipe(text, "--scheduled_sampling.rate", "0.5")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["--scheduled_sampling.rate", "1.5"], r"scheduled_sampling\.rate = 1\.5: expected 0 to 1"),
        (["--scheduled_sampling.rate", "-0.1"], "expected 0 to 1"),
        (["--scheduled_sampling.rate", "0.5", "--data.stateful", "true"], "exclude each other"),
    ],
)
def test_invalid_scheduled_sampling(text, overrides, message):
    with pytest.raises(UserError, match=message):
        toys.recurrent_recipe(text, *overrides)


def test_more_tokens_than_learned_positions_are_refused(text):
    model = {**toys.TRANSFORMER, "positions": "learned", "max_positions": 16}
    assert toys.corpus_recipe(text, model=model).data.context_length == 16
    message = r"data\.context_length = 17: the model has only model\.max_positions = 16"
    with pytest.raises(UserError, match=message):
        toys.corpus_recipe(text, "--data.context_length", "17", model=model)


@pytest.mark.parametrize(
    ("content", "message"),
    [("", "it is empty"), ("x", "a single character"), ("xyz", "too few")],
)
def test_too_short_a_text_is_refused(tmp_path, content, message):
    (tmp_path / "text.txt").write_text(content)
    with pytest.raises(UserError, match=message):
        LanguageModeling.from_recipe(toys.corpus_recipe(tmp_path / "text.txt"))


def test_the_tokenizer_of_a_long_text_is_trained_once(text, monkeypatch):
    monkeypatch.setattr(language_modeling, "MIN_CACHED_CHARACTERS", 10)
    recipe = toys.corpus_recipe(text)
    done = []
    first = LanguageModeling.from_recipe(recipe, lambda *progress: done.append(progress))
    assert done[0] == (0, 3 * text.stat().st_size)
    assert done == sorted(done)
    monkeypatch.setattr(language_modeling, "train_tokenizer", None)  # not called again
    assert LanguageModeling.from_recipe(recipe).tokenizer == first.tokenizer


def test_too_many_streams_are_refused(text):
    overrides = ("--data.stateful", "true", "--train.batch_size", "500")
    task = LanguageModeling.from_recipe(toys.recurrent_recipe(text, *overrides))
    with pytest.raises(UserError, match=r"a smaller train\.batch_size or data\.context_length"):
        task.batches(0)


def test_the_vocabulary_is_that_of_the_training_text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("ab" * 200 + "cd" * 20)
    task = LanguageModeling.from_recipe(toys.corpus_recipe(path))
    assert len(task.tokenizer) == 5
    assert set(task._validation_ids[-10:].tolist()) == {task.tokenizer.unk_id}


@pytest.mark.parametrize("kind", ["characters", "byte-pair"])
@pytest.mark.parametrize("is_odd_first", [False, True])
def test_the_validation_text_starts_where_the_training_text_ends(
    tmp_path, monkeypatch, kind, is_odd_first
):
    monkeypatch.setattr("workings.data.corpora.CHUNK_CHARACTERS", 100)
    plain, odd = "the cat sat on the mat\n" * 40, "Zyx9! wvU8? tsR7;\n" * 8
    text = odd + plain if is_odd_first else plain + odd  # the end has few tokens, or many
    (tmp_path / "text.txt").write_text(text)
    overrides = ["--tokenizer.kind", kind, "--tokenizer.vocab_size", "300"]
    recipe = toys.corpus_recipe(tmp_path / "text.txt", *overrides)
    task = LanguageModeling.from_recipe(recipe)
    cut = int(len(text) * 0.9)
    assert task.tokenizer.decode(task._train_ids[:].tolist()) == text[:cut]
    if kind == "byte-pair":  # which encodes any text
        assert task.tokenizer.decode(task._validation_ids[:].tolist()) == text[cut:]


# -- training --------------------------------------------------------------------------------------


def test_language_model_learns_and_logs(corpus_run):
    result = toys.result(corpus_run)
    assert result["validation_loss"] < 1.0
    assert result["validation_perplexity"] == pytest.approx(math.exp(result["validation_loss"]))
    bits = result["validation_loss"] / math.log(2)
    assert result["validation_bits_per_character"] == pytest.approx(bits)
    log = read_log(corpus_run / "log.jsonl")
    assert [r["kind"] for r in log if r["kind"] != "step"] == ["epoch", "sample"] * 8 + ["test"]
    steps = [r for r in log if r["kind"] == "step"]
    assert [r["step"] for r in steps] == list(range(100, steps[-1]["steps"] + 1, 100))
    assert all(len(r["sample"]) == 30 for r in log if r["kind"] == "sample")


def test_stateful_batches_follow_each_other(text):
    overrides = ("--data.stateful", "true", "--data.eval_every", "20")
    task = LanguageModeling.from_recipe(toys.recurrent_recipe(text, *overrides))
    batches = task.batches(0)
    length = (len(task._train_ids) - 1) // 8
    assert batches[0] == [row * length for row in range(8)]
    for before, after in pairwise(batches):
        assert after[0] in (before[0] + 16, 0)
        assert [start - after[0] for start in after] == batches[0]


def test_stateful_losses_start_from_the_last_hidden_state(text):
    task = LanguageModeling.from_recipe(toys.recurrent_recipe(text, "--data.stateful", "true"))
    task.model.eval()
    first, second, *_ = task.batches(0)
    task.loss(first, CPU)
    found = task.loss(second, CPU).mean
    ids = torch.from_numpy(np.stack([task._train_ids[b : b + 33] for b in first]).astype(np.int64))
    logits, _ = task.model(ids[:, :32])
    expected = F.cross_entropy(logits[:, 16:].flatten(0, 1), ids[:, 17:].flatten())
    torch.testing.assert_close(found, expected)


def test_scheduled_sampling_follows_its_ramp(text):
    overrides = ["--scheduled_sampling.rate", "0.6", "--scheduled_sampling.from_epoch", "1"]
    overrides += ["--scheduled_sampling.ramp_epochs", "2"]
    task = LanguageModeling.from_recipe(toys.recurrent_recipe(text, *overrides))
    rates = []
    for epoch in range(5):
        task.batches(epoch)
        rates.append(round(task._sampling_rate, 2))
    assert rates == [0.0, 0.0, 0.3, 0.6, 0.6]


def test_scheduled_sampling_without_samples_is_teacher_forcing(text):
    recipe = toys.recurrent_recipe(text, "--scheduled_sampling.rate", "0.5")
    task = LanguageModeling.from_recipe(recipe)
    task.model.eval()
    batch = task.batches(0)[0]
    teacher_forced = task.loss(batch, CPU).mean
    task._sampling_rate = 1e-12  # goes step by step, but never samples
    torch.testing.assert_close(task.loss(batch, CPU).mean, teacher_forced)
    task._sampling_rate = 1.0
    assert task.loss(batch, CPU).mean.item() != pytest.approx(teacher_forced.item(), abs=1e-6)


# -- evaluation ------------------------------------------------------------------------------------


@pytest.mark.parametrize("stride", [16, 8, 5])
@pytest.mark.parametrize("length", [2, 7, 17, 40, 70])
def test_each_token_is_scored_once_with_its_context(task, text, length, stride):
    task.model.eval()
    ids = np.asarray(task.tokenizer.encode(text.read_text())[:length], np.uint16)
    total = 0.0
    for k in range(1, length):  # one token at a time
        start = max(0, math.ceil(k / stride) * stride - 16)
        with torch.no_grad():
            logits, _ = task.model(torch.from_numpy(ids[start:k].astype(np.int64)).unsqueeze(0))
        total += float(F.cross_entropy(logits[0, -1], torch.tensor(int(ids[k]))))
    found = task._evaluate_ids(ids, LOCAL, stride)["loss"]
    assert found == pytest.approx(total / (length - 1), rel=1e-4)


def test_a_part_of_the_validation_text_is_measured_after_an_epoch(task):
    task.model.eval()
    every = task.evaluate(LOCAL)
    task.eval_tokens = len(task._validation_ids) // 3
    calls = []
    task.on_progress = lambda done, total: calls.append((done, total))
    part = task.evaluate(LOCAL)
    windows = math.ceil((len(task._validation_ids) - 1) / task.recipe.data.context_length)
    assert calls[0][0] == 0
    assert windows / 5 < calls[0][1] <= windows / 3 + 1
    assert part["validation_loss"] == pytest.approx(every["validation_loss"], rel=0.2)
    assert part["validation_loss"] != every["validation_loss"]
    ratios = [m["validation_bits_per_character"] / m["validation_loss"] for m in (every, part)]
    assert ratios[0] == pytest.approx(ratios[1])  # a token is a character
    task.eval_tokens = 10**9
    assert task.evaluate(LOCAL) == every


def test_an_unknown_character_counts_as_one_character(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("abcdefgh" * 60)
    task = LanguageModeling.from_recipe(toys.corpus_recipe(path, "--tokenizer.vocab_size", "6"))
    assert task.tokenizer.unk_id in task._validation_ids
    found = task.evaluate(LOCAL)
    bits = found["validation_loss"] / math.log(2)
    assert found["validation_bits_per_character"] == pytest.approx(bits)


def test_batches_of_the_evaluation_are_limited_by_their_logits(task, monkeypatch):
    task.model.eval()
    found, sizes = task.evaluate(LOCAL), []
    task.model.register_forward_pre_hook(lambda _, inputs: sizes.append(inputs[0].numel()))
    three_windows = 3 * 16 * len(task.tokenizer)
    monkeypatch.setattr("workings.tasks.language_modeling.MAX_LOGITS", three_windows)
    assert task.evaluate(LOCAL) == pytest.approx(found, rel=1e-5)
    assert max(sizes) == 3 * 16


def test_a_loaded_run_is_evaluated_like_the_trained_one(corpus_run):
    task, result = load(corpus_run), toys.result(corpus_run)
    metrics = task.evaluate_on()
    assert metrics == pytest.approx({name: result[name] for name in metrics}, abs=1e-4)
    assert {"validation_loss", "sliding_loss"} <= metrics.keys()
    assert task.evaluate_on(task.recipe.data.set)["test_loss"] < 1.0


def test_a_changed_text_is_evaluated_only_as_another_one(corpus_run, tmp_path):
    task = load(corpus_run)
    text = tmp_path / "text.txt"
    text.write_text("another text, " + toys.write_corpus(text).read_text())
    task.recipe = replace(task.recipe, data=replace(task.recipe.data, set=str(text)))
    with pytest.raises(UserError, match="is not what this run was trained on"):
        task.evaluate_on()
    assert task.evaluate_on(str(text))["test_loss"] > 0


# -- completions -----------------------------------------------------------------------------------


def test_language_model_completes_words(corpus_run):
    task = load(corpus_run)
    assert "yellow" in task.complete("hello world, ye", 6)
    assert load(corpus_run).complete("hello w", 20) == task.complete("hello w", 20)


def test_notes_about_a_prompt(task, text):
    assert task.list_prompt_notes("hello", 5) == []
    assert "an empty prompt" in task.list_prompt_notes("", 5)[0]
    assert "never seen in training, read as unknown: Z é" in task.list_prompt_notes("Zé", 5)[0]
    assert "more than the 16 of the windows" in task.list_prompt_notes("hello", 100)[0]
    model = {**toys.TRANSFORMER, "positions": "learned", "max_positions": 20}
    limited = LanguageModeling.from_recipe(toys.corpus_recipe(text, model=model))
    assert "reads the later half" in limited.list_prompt_notes("hello", 100)[0]
    recurrent = LanguageModeling.from_recipe(toys.recurrent_recipe(text))
    assert recurrent.list_prompt_notes("hello", 100) == []


def test_stop_strings_end_a_completion_and_are_never_shown_in_part(corpus_run):
    task = load(corpus_run)
    completion = task.complete("hello world, ", 12)
    assert "yellow" in completion
    pieces = [token.text for token in task.stream("hello world, ", 12, stop_strings=["llow"])]
    assert "".join(pieces) == "ye"
    assert not any("l" in piece for piece in pieces)
    assert task.complete("hello world, ", 12, stop_strings=["zzz"]) == completion
    samples = {task.complete("h", 30, Sampling(temperature=3.0, seed=seed)) for seed in range(4)}
    assert len(samples) == 4


TEXT = "Ärger über große Bäume, 東京 and “quotes” — done. It's l'eau, don't!\n" * 4
RECURRENT = {"kind": "recurrent", "hidden_size": 8}


@pytest.mark.parametrize("prompt", ["", "über 東", "and"])
@pytest.mark.parametrize(("kind", "size"), [("characters", 99), ("words", 99), ("byte-pair", 270)])
def test_streamed_pieces_are_the_decoded_tokens(kind, size, prompt):
    tokenizer = train_tokenizer(kind, [TEXT], size)
    torch.manual_seed(0)
    model = build_language_model(RECURRENT, len(tokenizer)).eval()
    sampling = Sampling(temperature=2.0, seed=5)  # random bytes are seldom whole characters
    prompt_ids = tokenizer.encode(prompt) or [tokenizer.bos_id]
    suppressed = replace(sampling, suppress_tokens=list_non_text_ids(tokenizer))
    generated = generate(model, torch.tensor([prompt_ids]), 150, suppressed)
    ids = [int(token) for token, _ in generated]
    expected = tokenizer.decode([*prompt_ids, *ids])[len(tokenizer.decode(prompt_ids)) :]
    stream = list(stream_completion(model, tokenizer, prompt, 150, sampling))
    assert "".join(piece.text for piece in stream) == expected
    tokens = [piece.token for piece in stream if piece.token]
    assert tokens == [tokenizer.token_to_text(tokenizer.id_to_token(i)) for i in ids]


def test_a_long_completion_is_not_decoded_again_for_each_token(monkeypatch):
    tokenizer = train_tokenizer("characters", [TEXT], 99)
    model = build_language_model(RECURRENT, len(tokenizer)).eval()
    decode, lengths = type(tokenizer).decode, []
    monkeypatch.setattr(
        type(tokenizer), "decode", lambda self, ids: lengths.append(len(ids)) or decode(self, ids)
    )
    list(stream_completion(model, tokenizer, "and", 200, Sampling(seed=1)))
    assert max(lengths[4:]) < 30


@pytest.mark.parametrize("kind", ["characters", "words"])
def test_special_tokens_are_never_sampled(kind):
    tokenizer = train_tokenizer(kind, ["aa bb"], 99)
    model = build_language_model(RECURRENT, len(tokenizer)).eval()
    hot = Sampling(temperature=50.0, seed=1)
    unrestricted = {int(token) for token, _ in generate(model, torch.tensor([[1]]), 200, hot)}
    assert unrestricted & {0, 1, 2}
    tokens = {piece.token for piece in stream_completion(model, tokenizer, "aa", 200, hot)}
    assert tokens <= {tokenizer.id_to_token(k) for k in range(3, len(tokenizer))} | {""}
    assert len(tokens) > 1
