"""Translation: learning a reversed word order, long texts, unknown words, BPE-dropout."""

import json
import random
import shutil
from itertools import product
from pathlib import Path

import pytest
import torch
import toys

from workings.cli import main
from workings.data import pair_encoding
from workings.data.parallel import load_pairs
from workings.data.tokenizers.base import TokenizerPair
from workings.data.tokenizers.byte_pair import BytePairTokenizer
from workings.decode import Hypothesis
from workings.distributed import ProcessGroup
from workings.errors import UserError
from workings.interpret.attention import compute_alignment
from workings.models.translation import PAD, START
from workings.recipes import SearchConfig, build_recipe, read_recipe
from workings.tasks.attention import collect_cross_attention
from workings.tasks.base import Generation
from workings.tasks.translation import (
    MAX_SENTENCE_TOKENS,
    Translation,
    collate_sources,
    detokenize,
)
from workings.training.runs import load, resume, train_recipe


@pytest.fixture
def task(pairs_run):
    return load(pairs_run)


# -- learning --------------------------------------------------------------------------------------


def test_translator_learns_to_reverse_the_words(pairs_run, task):
    result = toys.result(pairs_run)
    assert result["test_bleu"] > 90
    assert result["signature"].startswith("nrefs:1|case:lc")  # words are lowercased
    assert result["chrf_signature"].startswith("nrefs:1|case:lc|eff:yes|nc:6")
    assert list(task.translate_best(["one cat two", "ten six"])) == ["deux chat un", "six dix"]


@pytest.mark.parametrize(
    "overrides",
    [
        ("--model.kind", "transformer", "--model.layers", "1",
         "--tokenizer.shared_vocab", "true", "--tokenizer.kind", "characters"),
        ("--model.attention", "none", "--train.metric", "bleu"),
        ("--model.attention", "fixed", "--model.cell", "lstm", "--scheduled_sampling.rate", "0.5"),
        ("--tokenizer.lower", "true", "--train.average", "last", "--train.label_smoothing", "0.1"),
    ],
)  # fmt: skip
def test_all_kinds_train_and_resume(few_pairs, tmp_path, overrides):
    run = tmp_path / "run"
    train_recipe(toys.pairs_recipe(few_pairs, "--train.epochs", "2", *overrides), run, mode="quiet")
    before = toys.weights(run)
    shutil.rmtree(toys.newest_checkpoint(run))
    assert isinstance(resume(run, mode="quiet"), Translation)
    assert toys.weights(run) == before
    assert (run / "report.html").stat().st_size > 10_000


def test_invalid_recipes_are_refused(few_pairs):
    with pytest.raises(UserError, match="one vocabulary"):
        toys.pairs_recipe(few_pairs, "--model.share_embeddings", "true")
    with pytest.raises(UserError, match="for recurrent models"):
        toys.pairs_recipe(
            few_pairs, "--model.kind", "transformer", "--scheduled_sampling.rate", "0.5"
        )
    with pytest.raises(UserError, match="only byte-pair has merges"):
        toys.pairs_recipe(few_pairs, "--tokenizer.dropout", "0.1")


def test_test_pairs_are_not_in_the_other_splits(pairs):
    splits = load_pairs(pairs, source="en", target="fr", seed=1)
    seen = {p.source for p in splits.train} | {p.source for p in splits.validation}
    assert not seen & {p.source for p in splits.test}


@pytest.mark.parametrize("shared", ["true", "false"])
def test_bpe_dropout_changes_the_training_pairs_only(few_pairs, shared):
    overrides = ("--tokenizer.shared_vocab", shared, "--tokenizer.lower", "true")
    overrides += ("--tokenizer.vocab_size", "280", "--tokenizer.kind", "byte-pair")
    recipe = toys.pairs_recipe(few_pairs, *overrides)
    plain = Translation.from_recipe(recipe)
    dropping = Translation.from_recipe(
        toys.pairs_recipe(few_pairs, *overrides, "--tokenizer.dropout", "0.3")
    )
    assert dropping.tokenizers == plain.tokenizers
    cpu, encodings = torch.device("cpu"), {}
    for epoch in (0, 1, 2, 0):
        batches = dropping.batches(epoch)
        count = len(dropping.pairs["train"])
        assert sorted(k for batch in batches for k in batch) == list(range(count))
        for batch in batches:
            source, inputs, targets = dropping.collate("train", batch, cpu)
            assert dropping.weight(batch) == int((targets != PAD).sum())
            assert max(source.ids.numel(), inputs.numel()) <= recipe.train.batch_size
            for k, ids, target in zip(batch, source.ids.tolist(), inputs.tolist(), strict=True):
                pair = dropping.pairs["train"][k]
                assert dropping.tokenizers.source.decode(ids) == pair.source
                assert dropping.tokenizers.target.decode(target) == pair.target
                encodings.setdefault(k, []).append([*filter(None, ids)])
                assert encodings[k][-1][-1] == dropping.tokenizers.source.eos_id
    assert all(splits[0] == splits[3] for splits in encodings.values())
    assert sum(splits[0] != splits[1] for splits in encodings.values()) > len(encodings) / 2
    assert dropping.list_eval_batches("validation") == plain.list_eval_batches("validation")
    group = ProcessGroup(cpu)
    losses = [t.evaluate_loss("validation", group) for t in (dropping, plain)]
    assert losses[0] == losses[1]


@pytest.mark.parametrize("shared", ["true", "false"])
def test_cached_pairs_train_like_those_in_memory(few_pairs, shared, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    recipe = toys.pairs_recipe(few_pairs, "--tokenizer.shared_vocab", shared)
    plain = Translation.from_recipe(recipe)
    monkeypatch.setattr(pair_encoding, "MIN_CACHED_CHARACTERS", 0)
    for _ in range(2):
        cached = Translation.from_recipe(recipe)
        assert cached.fingerprint() == plain.fingerprint()
        for batch in plain.batches(0):
            expected = plain.collate("train", batch, torch.device("cpu"))
            for ours, theirs in zip(cached.collate("train", batch, torch.device("cpu")), expected):  # noqa: B905
                assert str(ours) == str(theirs)
    count = 7 if shared == "true" else 8  # three splits of two sides, and the tokenizers
    assert len(list((tmp_path / "workings" / "tokens").glob("*.uint*"))) == count


# -- training data in the test data ----------------------------------------------------------------


def test_test_pairs_in_the_training_data_are_counted(pairs, tmp_path, capsys):
    header, *lines = pairs.read_text().splitlines()
    files = {"train": lines[:90], "test": lines[60:100]}  # thirty are in both
    for split, pairs_of_split in files.items():
        (tmp_path / f"{split}.tsv").write_text("\n".join([header, *pairs_of_split]) + "\n")
    run = tmp_path / "run"
    train_recipe(toys.pairs_recipe(tmp_path, "--train.epochs", "1"), run, mode="quiet")
    learned = {(p.source, p.target) for p in load(run).load_train_pairs()}
    count = sum(tuple(line.split("\t")) in learned for line in files["test"])
    assert 20 < count <= 30
    result = toys.result(run)
    assert (result["test_pairs"], result["test_pairs_in_train"]) == (40, count)
    assert main(["evaluate", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["test_pairs_in_train"] == count
    assert main(["score", str(run)]) == 0
    assert f"trained on {count} of these 40 pairs" in capsys.readouterr().out
    shutil.rmtree(run / "checkpoints")
    (tmp_path / "train.tsv").write_text("\n".join([header, *lines[200:290]]) + "\n")
    other = str(tmp_path / "test.tsv")  # the training data have changed
    assert main(["evaluate", str(run), "--data", other, "--json"]) == 0
    assert "test_pairs_in_train" not in json.loads(capsys.readouterr().out)


def test_changed_training_data_are_refused(few_pairs, tmp_path):
    data, run = tmp_path / "pairs.tsv", tmp_path / "run"
    data.write_text(few_pairs.read_text())
    train_recipe(toys.pairs_recipe(data, "--train.epochs", "1"), run, mode="quiet")
    assert load(run).load_train_pairs()
    data.write_text(few_pairs.read_text() + "ten ten ten ten ten ten\tdix dix dix dix dix dix\n")
    with pytest.raises(UserError, match="not what this run was trained on"):
        load(run).load_train_pairs()


# -- translating -----------------------------------------------------------------------------------


def test_translations_are_ranked_by_their_scores(task):
    (found,) = task.translate(["one two ten"], SearchConfig(beams=4, length_penalty=0.5))
    assert found[0].text == "dix deux un"
    assert [t.score for t in found] == sorted((t.score for t in found), reverse=True)
    assert len({t.text for t in found}) == len(found) == 4


def test_order_and_empty_sentences(task):
    texts = ["one two ten", "", "dog", "cat cat six ten", "  "]
    translations = list(task.translate_best(texts))
    assert translations == [next(task.translate_best([text])) for text in texts]
    assert translations[3] == "dix six chat chat"


def test_a_translation_does_not_depend_on_its_batch(task):
    """With a penalty that rewards length, a search goes up to its limit."""
    config = SearchConfig(beams=3, length_penalty=3.0)
    alone = next(iter(task.translate(["one two"], config)))
    in_batch, _ = task.translate(["one two", "cat dog " * 30], config)
    assert [t.text for t in in_batch] == [t.text for t in alone]


def test_gradients_are_enabled_while_translations_are_consumed(task):
    translations = task.translate_best(["one two", "ten"])
    next(translations)
    assert torch.is_grad_enabled()


def test_leading_spaces_are_removed(task):
    tokenizer = BytePairTokenizer.train(["the cat"] * 9, 270, with_eos=True)
    hypothesis = Hypothesis(tuple(tokenizer.encode(" the cat")), 0.0, 0.0)
    pair = TokenizerPair(tokenizer, tokenizer)
    assert detokenize(task.model, pair, "le chat", hypothesis) == "the cat"


def test_an_unknown_word_is_copied_from_the_attended_source_word(task):
    source, tokenizers = "cat xyzzy two", task.tokenizers
    assert tokenizers.source.unk_id in tokenizers.encode_source(source)
    deux, chat = (tokenizers.encode_target(word)[0] for word in ("deux", "chat"))
    tokens = (deux, tokenizers.target.unk_id, chat)
    text = detokenize(task.model, tokenizers, source, Hypothesis(tokens, 0.0, 0.0))
    batch = collate_sources([tokenizers.encode_source(source)], task.model)
    (weights,) = collect_cross_attention(task.model, batch, torch.tensor([[START, *tokens]]))
    attended = source.split()[int(weights[0, 0, 1, :3].argmax())]
    assert text.split() == ["deux", attended, "chat"]


def test_punctuation_is_not_copied_for_an_unknown_word(task):
    source, tokenizers = ", , , xyzzy , .", task.tokenizers
    unknown = Hypothesis((tokenizers.target.unk_id,) * 5, 0.0, 0.0)
    assert detokenize(task.model, tokenizers, source, unknown).split() == ["xyzzy"] * 5
    assert detokenize(task.model, tokenizers, ", .", unknown).split() == ["<unk>"] * 5
    marked = Hypothesis((PAD, START, tokenizers.target.unk_id), 0.0, 0.0)
    assert detokenize(task.model, tokenizers, source, marked) == "xyzzy"


def test_long_texts_are_split_between_words(task):
    words, tokenizers = ["one", "two", "six", "ten", "cat"] * 2000, task.tokenizers
    parts = tokenizers.source.split_long_text(" ".join(words), MAX_SENTENCE_TOKENS)
    assert max(len(tokenizers.encode_source(part)) for part in parts) <= MAX_SENTENCE_TOKENS + 1
    assert " ".join(parts).split() == words
    greedy = SearchConfig(beams=1)
    (found,) = task.translate([" ".join(words[:300])], greedy)
    first = tokenizers.source.split_long_text(" ".join(words[:300]), MAX_SENTENCE_TOKENS)[0]
    assert found[0].text.startswith(next(task.translate_best([first], greedy)))
    unbroken = tokenizers.source.split_long_text("x" * 100_000, MAX_SENTENCE_TOKENS)
    assert "".join(unbroken) == "x" * 100_000
    padded = next(task.translate([" " * 300 + " ".join(words[:300]) + " " * 600], greedy))
    assert padded[0].text == padded[0].text.strip()


# -- alignment -------------------------------------------------------------------------------------


def test_the_alignment_is_reversed_like_the_words(task):
    found = compute_alignment(task, "one cat ten dog")
    assert (found.rows[0].strip(), found.columns[-2].strip()) == ("chien", "dog")
    weights = torch.tensor([list(row) for row in found.maps[0].weights])
    centers = weights[:4, :4] @ torch.arange(4.0) / weights[:4, :4].sum(1)
    assert torch.corrcoef(torch.stack((centers, torch.arange(4.0))))[0, 1] < -0.9
    torch.testing.assert_close(weights.sum(1), torch.ones(5))


def test_the_alignment_is_that_of_the_generated_tokens(few_pairs):
    """A model may split a word into other tokens than its tokenizer does."""
    overrides = ("--tokenizer.kind", "byte-pair", "--tokenizer.vocab_size", "300")
    task = Translation.from_recipe(toys.pairs_recipe(few_pairs, *overrides))
    tokenizer = task.tokenizers.target
    letters = tuple(token for letter in "chat" for token in tokenizer.encode(letter))
    assert len(tokenizer.encode("chat")) < len(letters) == 4
    found = compute_alignment(task, "cat", Generation("chat", letters, -1.0, -1.0))
    assert found.rows == ["c", "h", "a", "t", "</s>"]
    assert len(found.maps[0].weights) == 5
    assert len(compute_alignment(task, "cat", "chat").rows) == len(tokenizer.encode("chat")) + 1
    best = task.translate_one("cat")
    assert len(compute_alignment(task, "cat").rows) == len(best.tokens) + 1


def test_a_translation_that_equals_its_source_is_aligned(task):
    found = compute_alignment(task, "six", "six")
    assert found.rows == found.columns
    assert found.is_alignment


AGREEMENTS = {"agreement": "accord", "treaty": "traité"}
ORIGINS = {"European": "européenne", "British": "britannique", "Russian": "russe"}
TOPICS = {"Economic": "économique", "Political": "politique", "Historic": "historique"}
REGIONS = {"Area": "zone", "Union": "union", "Crisis": "crise"}
MONTHS = {"August": "août", "May": "mai", "June": "juin"}
FIGURE_3 = "the agreement on the European Economic Area was signed in August"


def write_agreements(path):
    """Write sentences like that of Bahdanau et al. (2015), figure 3, but not that one."""
    lines = []
    for words in product(AGREEMENTS, ORIGINS, TOPICS, REGIONS, MONTHS):
        what, origin, topic, region, month = words
        english = f"the {what} on the {origin} {topic} {region} was signed in {month}"
        name = f"la {REGIONS[region]} {TOPICS[topic]} {ORIGINS[origin]}"
        if english != FIGURE_3:
            french = f"le {AGREEMENTS[what]} sur {name} a été signé en {MONTHS[month]}"
            lines.append(f"{english}\t{french}")
    random.Random(0).shuffle(lines)  # noqa: S311
    path.write_text("\n".join(["en\tfr", *lines]) + "\n")
    return path


def test_attention_finds_the_reversed_adjectives_of_bahdanau_figure_3(tmp_path):
    data = write_agreements(tmp_path / "pairs.tsv")
    recipe = toys.pairs_recipe(data, "--train.epochs", "14")
    task = train_recipe(recipe, tmp_path / "run", mode="quiet")
    found = compute_alignment(task, FIGURE_3)
    rows, columns = ([word.strip() for word in side] for side in (found.rows, found.columns))
    assert rows[:7] == ["le", "accord", "sur", "la", "zone", "économique", "européenne"]
    attended = {
        word: columns[max(range(len(columns)), key=weights.__getitem__)]
        for word, weights in zip(rows, found.maps[0].weights, strict=True)
    }
    reversed_words = {"zone": "area", "économique": "economic", "européenne": "european"}
    in_order = {"accord": "agreement", "août": "august"}
    expected = reversed_words | in_order
    assert {word: attended[word] for word in expected} == expected


@pytest.mark.slow
def test_attention_finds_adjectives_that_follow_their_nouns(tmp_path):
    recipe = Path(__file__).parents[2] / "recipes" / "emoji-french.toml"
    task = train_recipe(read_recipe(recipe), tmp_path / "run", mode="quiet")
    reordered = {
        "red heart": ("cœur", "rouge"),
        "green heart": ("cœur", "vert"),
        "yellow heart": ("cœur", "jaune"),
        "blue book": ("livre", "bleu"),
        "white flag": ("drapeau", "blanc"),
    }
    crossed = 0
    for source, expected in reordered.items():
        found = compute_alignment(task, source, whole_words=True)
        assert (found.rows[0], found.rows[1]) == expected
        noun, adjective = (list(row[:2]) for row in found.maps[0].weights[:2])
        crossed += noun[1] > noun[0] and adjective[0] > adjective[1]
    assert crossed >= 4


def test_an_imported_model_has_no_test_data(few_pairs):
    table = {"task": "translate", "data": {"set": "imported"}, "model": {"d_model": 8, "heads": 1}}
    tokenizer = BytePairTokenizer.train(["the cat"] * 9, 270, with_eos=True)
    recipe = build_recipe(table)
    pair = TokenizerPair(tokenizer, tokenizer)
    task = Translation(recipe, pair, Translation.build_model(recipe, pair))
    with pytest.raises(UserError, match="an imported model has no test data"):
        task.load_test_pairs()
