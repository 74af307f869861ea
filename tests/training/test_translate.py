"""Translators through the engine: a language whose words come in reverse order."""

import json
import shutil

import pytest
import torch
from reversing import recipe_for

from workings.cli import main
from workings.config import build, override, to_table
from workings.data.parallel import load_pairs
from workings.data.tokenizers.byte_pair import BytePairTokenizer
from workings.data.tokenizers.unigram import UnigramTokenizer
from workings.decode.beam import Hypothesis, beam_search
from workings.decode.sampling import Sampling
from workings.distributed import ProcessGroup
from workings.errors import UserError
from workings.interpret.attention_maps import compute_alignment
from workings.models.translation import PAD, START
from workings.recipes import ClassificationRecipe, SearchConfig, TranslationRecipe
from workings.tasks.seq2seq import Generation, collect_cross_attention
from workings.tasks.translation import (
    MAX_SENTENCE_TOKENS,
    TokenizerPair,
    Translation,
    collate_sources,
    detokenize,
    split_long_text,
)
from workings.training.runs import load, resume, train_recipe

LOOSELY = ("--tokenizer.dropout", "0.3")


@pytest.fixture(scope="module")
def run(reverser):
    return reverser


def test_it_learns_the_language(run):
    result = json.loads((run / "result.json").read_text())
    assert result["test_bleu"] > 90
    assert result["signature"].startswith("nrefs:1|case:lc")  # words have no capitals
    assert result["chrf_signature"].startswith("nrefs:1|case:lc|eff:yes|nc:6")
    assert list(load(run).translate_best(["one cat two", "ten six"])) == ["deux chat un", "six dix"]


def test_weights_leave_the_diagonal_where_words_change_places(run):
    """The first word that is written was the last one of the source, and so on."""
    found = compute_alignment(load(run), "one cat ten dog")
    assert (found.rows[0].strip(), found.columns[-2].strip()) == ("chien", "dog")
    weights = torch.tensor([list(row) for row in found.maps[0].weights])
    middle = weights[:4, :4] @ torch.arange(4.0) / weights[:4, :4].sum(1)
    assert torch.corrcoef(torch.stack((middle, torch.arange(4.0))))[0, 1] < -0.9
    torch.testing.assert_close(weights.sum(1), torch.ones(5))


def test_what_is_unknown_is_taken_from_where_the_model_looked(run):
    task, source = load(run), "cat xyzzy two"
    words = task.tokenizers
    assert words.source.unk_id in words.encode_source(source)
    deux, chat = (words.encode_target(word)[0] for word in ("deux", "chat"))
    tokens = (deux, words.target.unk_id, chat)
    text = detokenize(task.model, words, source, Hypothesis(tokens, 0.0, 0.0))
    target = torch.tensor([[START, *tokens]])
    (weights,) = collect_cross_attention(
        task.model, collate_sources([words.encode_source(source)], task.model), target
    )
    looked_at = source.split()[int(weights[0, 0, 1, :3].argmax())]
    assert text.split() == ["deux", looked_at, "chat"]


def test_what_is_unknown_is_no_comma(run):
    task, source = load(run), ", , , xyzzy , ."
    unknown = Hypothesis((task.tokenizers.target.unk_id,) * 5, 0.0, 0.0)
    assert detokenize(task.model, task.tokenizers, source, unknown).split() == ["xyzzy"] * 5
    assert detokenize(task.model, task.tokenizers, ", .", unknown).split() == ["<unk>"] * 5
    marked = Hypothesis((PAD, START, task.tokenizers.target.unk_id), 0.0, 0.0)
    assert detokenize(task.model, task.tokenizers, source, marked) == "xyzzy"


def test_the_best_and_their_scores(run):
    task = load(run)
    (found,) = task.translate(["one two ten"], SearchConfig(beams=4, length_penalty=0.5))
    assert found[0].text == "dix deux un"
    assert [t.score for t in found] == sorted((t.score for t in found), reverse=True)
    assert len({t.text for t in found}) == len(found) == 4


def test_an_alignment_is_of_the_tokens_that_were_written(pairs):
    """A model may spell a word otherwise than its tokenizer does."""
    changes = ("--tokenizer.kind", "byte-pair", "--tokenizer.vocab_size", "300")
    task = Translation.from_recipe(recipe_for(pairs, *changes))
    words = task.tokenizers.target
    letters = tuple(token for letter in "chat" for token in words.encode(letter))
    assert len(words.encode("chat")) < len(letters) == 4
    found = compute_alignment(task, "cat", Generation("chat", letters, -1.0, -1.0))
    assert found.rows == ["c", "h", "a", "t", "</s>"]
    assert len(found.maps[0].weights) == 5
    assert len(compute_alignment(task, "cat", "chat").rows) == len(words.encode("chat")) + 1
    best = task.translate_one("cat")
    assert len(compute_alignment(task, "cat").rows) == len(best.tokens) + 1


def test_a_translation_that_looks_like_its_source_is_aligned_all_the_same(run):
    found = compute_alignment(load(run), "six", "six")
    assert found.rows == found.columns
    assert found.is_alignment
    assert "columns: 1" in found.text(width=60)


def test_order_and_empty_sentences(run):
    task = load(run)
    texts = ["one two ten", "", "dog", "cat cat six ten", "  "]
    together = list(task.translate_best(texts))
    assert together == [next(task.translate_best([text])) for text in texts]
    assert together[3] == "dix six chat chat"


def test_a_translation_does_not_depend_on_its_neighbours(run):
    """With a penalty that rewards length, a search goes as far as it may."""
    task, how = load(run), SearchConfig(beams=3, length_penalty=3.0)
    alone = next(iter(task.translate(["one two"], how)))
    beside, _ = task.translate(["one two", "cat dog " * 30], how)
    assert [t.text for t in beside] == [t.text for t in alone]


def test_two_files_are_found_from_elsewhere(pairs, tmp_path, monkeypatch):
    lines = [line.split("\t") for line in pairs.read_text().splitlines()[1:]]
    monkeypatch.chdir(tmp_path)
    for ending, texts in zip(("en", "fr"), zip(*lines, strict=True), strict=True):
        (tmp_path / f"some.{ending}").write_text("\n".join(texts) + "\n")
    train_recipe(recipe_for("some", "--train.epochs", "1"), "run", mode="quiet")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert load(tmp_path / "run").load_train_pairs()


def test_without_held_out_pairs_the_last_weights_are_kept(pairs, tmp_path):
    recipe = recipe_for(pairs, "--data.validation", "0", "--train.epochs", "3")
    train_recipe(recipe, tmp_path / "run", mode="quiet")
    assert json.loads((tmp_path / "run" / "result.json").read_text())["best_epoch"] == 3


def test_ten_thousand_words_are_translated_in_stretches(run):
    task, words = load(run), ["one", "two", "six", "ten", "cat"] * 2000
    parts = split_long_text(task.tokenizers, " ".join(words))
    assert (
        max(len(task.tokenizers.encode_source(part)) for part in parts) <= MAX_SENTENCE_TOKENS + 1
    )
    assert " ".join(parts).split() == words
    (found,) = task.translate([" ".join(words[:600])], SearchConfig(beams=1))
    expected = [next(task.translate_best([p], SearchConfig(beams=1))) for p in parts[:2]]
    assert found[0].text.startswith(" ".join(expected))
    bytes_ = TokenizerPair(*[BytePairTokenizer.train(["the cat"] * 9, 270, with_eos=True)] * 2)
    parts = split_long_text(bytes_, "日本" * 125)  # three tokens each: no sentence any more
    assert "".join(parts) == "日本" * 125
    assert max(len(bytes_.encode_source(part)) for part in parts) <= MAX_SENTENCE_TOKENS + 1
    told = "A cat, a dog! Two 3.5 m cats? Six… " * 60
    sentences_of = ["A cat, a dog!", "Two 3.5 m cats?", "Six…"] * 60
    assert split_long_text(task.tokenizers, told) == sentences_of
    assert split_long_text(task.tokenizers, told[:200]) == [
        told[:200]
    ]  # short enough to be translated whole
    assert "".join(split_long_text(bytes_, " " * 900 + "x" * 300)) == "x" * 300  # no part is blank
    unbroken = split_long_text(task.tokenizers, "x" * 100_000)
    assert "".join(unbroken) == "x" * 100_000
    blank = next(task.translate([" " * 300 + " ".join(words[:300]) + " " * 600]))
    assert len(blank) == task.recipe.search.beams
    assert blank[0].text == blank[0].text.strip()


def test_every_stretch_begins_with_the_language_that_is_asked_for():
    scored = [("▁", -2.0), ("▁abc", -3.0), ("▁def", -2.5)]
    pieces = UnigramTokenizer(["▁abc", "▁def", "▁", ">>fr<<"], scored_pieces=scored)
    words = TokenizerPair(pieces, pieces)
    parts = split_long_text(words, ">>fr<< " + "abc def " * 400)
    assert len(parts) > 3
    assert all(words.source.tokenize(part)[0] == ">>fr<<" for part in parts)
    assert max(len(words.encode_source(part)) for part in parts) <= MAX_SENTENCE_TOKENS + 1
    assert " ".join(part.removeprefix(">>fr<<") for part in parts).split() == ["abc", "def"] * 400


@pytest.mark.parametrize(
    "changes",
    [
        ("--model.kind", "transformer", "--model.layers", "1",
         "--tokenizer.shared_vocab", "true", "--tokenizer.kind", "characters"),
        ("--model.attention", "none", "--train.metric", "bleu"),
        ("--model.attention", "fixed", "--model.cell", "lstm", "--scheduled_sampling.rate", "0.5"),
        ("--tokenizer.lower", "true", "--train.average", "last", "--train.label_smoothing", "0.1"),
    ],
)  # fmt: skip
def test_every_kind_trains_and_resumes(few_pairs, tmp_path, changes):
    recipe = recipe_for(few_pairs, "--train.epochs", "2", *changes)
    train_recipe(recipe, tmp_path / "run", mode="quiet")
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    newest = max((tmp_path / "run" / "checkpoints").iterdir(), key=lambda p: int(p.name[5:]))
    for file in newest.iterdir():
        file.unlink()
    newest.rmdir()
    assert isinstance(resume(tmp_path / "run", mode="quiet"), Translation)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize("joint", ["true", "false"])
def test_words_fall_apart_in_training_only(pairs, joint):
    changes = ("byte-pair", "--tokenizer.shared_vocab", joint, "--tokenizer.lower", "true")
    recipe = recipe_for(pairs, "--tokenizer.vocab_size", "280", "--tokenizer.kind", *changes)
    usual = Translation.from_recipe(recipe)
    loose = Translation.from_recipe(build(TranslationRecipe, override(to_table(recipe), LOOSELY)))
    assert loose.tokenizers == usual.tokenizers
    cpu, read = torch.device("cpu"), {}
    for epoch in (0, 1, 2, 0):
        batches = loose.batches(epoch)
        assert sorted(k for batch in batches for k in batch) == list(
            range(len(loose.pairs["train"]))
        )
        for batch in batches:
            about, target, following = loose.collate("train", batch, cpu)
            assert loose.weight(batch) == int((following != PAD).sum())
            assert max(about.ids.numel(), target.numel()) <= recipe.train.batch_size
            for k, ids, text in zip(batch, about.ids.tolist(), target.tolist(), strict=True):
                pair = loose.pairs["train"][k]
                assert loose.tokenizers.source.decode(ids) == pair.source
                assert loose.tokenizers.target.decode(text) == pair.target
                read.setdefault(k, []).append([*filter(None, ids)])
                assert read[k][-1][-1] == loose.tokenizers.source.eos_id
    assert all(splits[0] == splits[3] for splits in read.values())
    assert sum(splits[0] != splits[1] for splits in read.values()) > len(read) / 2
    assert loose.list_eval_batches("validation") == usual.list_eval_batches("validation")
    assert loose.evaluate_loss("validation", ProcessGroup(cpu)) == usual.evaluate_loss(
        "validation", ProcessGroup(cpu)
    )


def test_words_fall_apart_the_same_in_the_middle_of_an_epoch(few_pairs, tmp_path):
    """Taken up there, a run goes on with the pieces of that epoch."""
    changes = ("--tokenizer.kind", "byte-pair", "--tokenizer.vocab_size", "270", *LOOSELY)
    recipe = recipe_for(few_pairs, "--train.epochs", "2", "--train.save_every", "3", *changes)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    train_recipe(recipe, whole, mode="quiet")
    train_recipe(recipe, broken, mode="quiet")
    kept = sorted((broken / "checkpoints").iterdir(), key=lambda p: int(p.name[5:]))
    log = [json.loads(line) for line in (broken / "log.jsonl").read_text().splitlines()]
    assert int(kept[0].name[5:]) not in [m["step"] for m in log if m["kind"] == "epoch"]
    for later in kept[1:]:
        shutil.rmtree(later)
    resume(broken, mode="quiet")
    weights = [(run / "model.safetensors").read_bytes() for run in (whole, broken)]
    assert weights[0] == weights[1]


def test_a_result_says_how_much_of_its_test_was_trained_on(pairs, tmp_path, capsys):
    header, *lines = pairs.read_text().splitlines()
    known = {"train": lines[:90], "test": lines[60:100]}  # thirty of them in both
    for part, some in known.items():
        (tmp_path / f"{part}.tsv").write_text("\n".join([header, *some]) + "\n")
    train_recipe(recipe_for(tmp_path, "--train.epochs", "1"), tmp_path / "run", mode="quiet")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    learned = {(p.source, p.target) for p in load(tmp_path / "run").load_train_pairs()}
    both = sum(tuple(line.split("\t")) in learned for line in known["test"])
    assert 20 < both <= 30
    assert (result["test_pairs"], result["test_pairs_in_train"]) == (40, both)
    assert main(["evaluate", str(tmp_path / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["test_pairs_in_train"] == both
    assert main(["score", str(tmp_path / "run")]) == 0
    assert f"trained on {both} of these 40 pairs" in capsys.readouterr().out
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    (tmp_path / "train.tsv").write_text("\n".join([header, *lines[200:290]]) + "\n")
    other = str(tmp_path / "test.tsv")  # what was learned from is gone
    assert main(["evaluate", str(tmp_path / "run"), "--data", other, "--json"]) == 0
    assert "test_pairs_in_train" not in json.loads(capsys.readouterr().out)


def test_pairs_that_came_later_were_not_learned_from(pairs, tmp_path):
    data = tmp_path / "pairs.tsv"
    data.write_text(pairs.read_text())
    train_recipe(recipe_for(data, "--train.epochs", "1"), tmp_path / "run", mode="quiet")
    assert load(tmp_path / "run").load_train_pairs()
    data.write_text(pairs.read_text() + "ten ten ten ten ten ten\tdix dix dix dix dix dix\n")
    with pytest.raises(UserError, match="not what this run was trained on"):
        load(tmp_path / "run").load_train_pairs()


def test_no_blanks_before_a_translation(run):
    words = BytePairTokenizer.train(["the cat"] * 9, 270, with_eos=True)
    found = Hypothesis(tuple(words.encode(" the cat")), 0.0, 0.0)
    assert detokenize(load(run).model, TokenizerPair(words, words), "le chat", found) == "the cat"


def test_what_no_text_has_is_not_drawn(run):
    task = load(run)
    hot = Sampling(temperature=1e6, seed=1)
    found = [t for some in task.translate(["one two ten cat dog"] * 20, sampling=hot) for t in some]
    assert not {PAD, START} & {token for t in found for token in t.tokens}


def test_gradients_are_on_while_a_translation_waits(run):
    found = load(run).translate_best(["one two", "ten"])
    next(found)
    assert torch.is_grad_enabled()


def test_held_out_pairs_are_not_seen(pairs):
    splits = load_pairs(pairs, source="en", target="fr", seed=1)
    seen = {p.source for p in splits.train} | {p.source for p in splits.validation}
    assert not seen & {p.source for p in splits.test}


def test_it_can_be_measured_with_another_search(run, tmp_path, capsys, monkeypatch):
    out, asked = tmp_path / "kept.json", set()

    def search(*given, **how):
        asked.add((how["beams"], how["length_penalty"]))
        return beam_search(*given, **how)

    monkeypatch.setattr("workings.tasks.translation.beam_search", search)
    short = ["--beams", "3", "--length-penalty", "-3"]
    assert main(["evaluate", str(run), *short, "--json", "--record", str(out)]) == 0
    measured, kept = json.loads(capsys.readouterr().out), json.loads(out.read_text())
    before = json.loads((run / "result.json").read_text())
    assert asked == {(3, -3.0)}
    assert kept["test_bleu"] == measured["test_bleu"]
    assert kept["recipe"]["search"]["length_penalty"] == -3
    assert kept["best_epoch"] == before["best_epoch"]
    assert json.loads((run / "result.json").read_text()) == before
    assert main(["evaluate", str(run), "--record", str(out), "--data", "x.tsv"]) == 2
    assert "not for --data" in capsys.readouterr().err


def test_a_classifier_does_not_search(toy, tmp_path, capsys):
    table = {"task": "classify", "data": {"set": str(toy)}, "model": {"kind": "ngrams"}}
    train_recipe(
        build(ClassificationRecipe, table | {"train": {"epochs": 1}}),
        tmp_path / "run",
        mode="quiet",
    )
    assert main(["evaluate", str(tmp_path / "run"), "--beams", "2"]) == 2
    assert "--beams is for translators and captioners" in capsys.readouterr().err
