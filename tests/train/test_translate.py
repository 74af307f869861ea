"""Translators through the engine: a language whose words come in reverse order."""

import io
import json
import random
import shutil

import pytest
import torch

from workings.cli import main
from workings.config import build, override, to_table
from workings.crew import Crew
from workings.data.byte_pair import BytePair
from workings.data.pairs import load_pairs
from workings.decode.beam import Hypothesis, beam_search
from workings.decode.sample import Sampling
from workings.errors import UserError
from workings.lens.alignments import alignment
from workings.lens.judging import judge
from workings.models.translators import PAD, START
from workings.recipes import ClassifyRecipe, SearchConfig, TranslateRecipe
from workings.tasks.alignment import cross_weights
from workings.tasks.translate import Translating
from workings.tasks.translation import LONGEST, Vocabularies, sentences, spelt, stretches
from workings.tasks.writing import Written
from workings.train.runs import load, resume, train

LOOSELY = ("--tokenizer.dropout", "0.3")
WORDS = {"one": "un", "two": "deux", "six": "six", "ten": "dix", "cat": "chat", "dog": "chien"}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Sentences of two to five words, and their words translated, the last one first."""
    draw, path = random.Random(0), tmp_path_factory.mktemp("pairs") / "pairs.tsv"  # noqa: S311
    some = {tuple(draw.choices(list(WORDS), k=draw.randint(2, 5))) for _ in range(1200)}
    lines = [f"{' '.join(s)}\t{' '.join(WORDS[w] for w in reversed(s))}" for s in sorted(some)]
    draw.shuffle(lines)
    path.write_text("\n".join(["en\tfr", *lines]) + "\n")
    return path


def recipe_for(pairs, *changes):
    table = {
        "task": "translate",
        "seed": 1,
        "data": {"set": str(pairs), "source": "en", "target": "fr"},
        "tokenizer": {"kind": "words", "joint": False},
        "model": {"kind": "recurrent", "embedding": 24, "hidden": 32, "dropout": 0.0},
        "search": {"beams": 3},
        "train": {"epochs": 12, "batch": 200, "rate": 0.01, "schedule": "cosine"},
    }
    return build(TranslateRecipe, override(table, changes))


@pytest.fixture(scope="module")
def run(pairs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "reversed"
    train(recipe_for(pairs), folder, mode="quiet")
    return folder


def test_it_learns_the_language(run):
    result = json.loads((run / "result.json").read_text())
    assert result["test_bleu"] > 90
    assert result["signature"].startswith("nrefs:1|case:lc")  # words have no capitals
    assert list(load(run).best(["one cat two", "ten six"])) == ["deux chat un", "six dix"]


def test_weights_leave_the_diagonal_where_words_change_places(run):
    """The first word that is written was the last one of the source, and so on."""
    found = alignment(load(run), "one cat ten dog")
    assert (found.rows[0].strip(), found.columns[-2].strip()) == ("chien", "dog")
    weights = torch.tensor([list(row) for row in found.maps[0].weights])
    middle = weights[:4, :4] @ torch.arange(4.0) / weights[:4, :4].sum(1)
    assert torch.corrcoef(torch.stack((middle, torch.arange(4.0))))[0, 1] < -0.9
    torch.testing.assert_close(weights.sum(1), torch.ones(5))


def test_what_is_unknown_is_taken_from_where_the_model_looked(run):
    task, source = load(run), "cat xyzzy two"
    words = task.words
    assert words.source.unknown in words.read(source)
    deux, chat = (words.wrote(word)[0] for word in ("deux", "chat"))
    tokens = (deux, words.target.unknown, chat)
    text = spelt(task.model, words, source, Hypothesis(tokens, 0.0, 0.0))
    target = torch.tensor([[START, *tokens]])
    (weights,) = cross_weights(task.model, sentences([words.read(source)], task.model), target)
    looked_at = source.split()[int(weights[0, 0, 1, :3].argmax())]
    assert text.split() == ["deux", looked_at, "chat"]


def test_what_is_unknown_is_no_comma(run):
    task, source = load(run), ", , , xyzzy , ."
    unknown = Hypothesis((task.words.target.unknown,) * 5, 0.0, 0.0)
    assert spelt(task.model, task.words, source, unknown).split() == ["xyzzy"] * 5
    assert spelt(task.model, task.words, ", .", unknown).split() == ["<unk>"] * 5
    marked = Hypothesis((PAD, START, task.words.target.unknown), 0.0, 0.0)
    assert spelt(task.model, task.words, source, marked) == "xyzzy"


def test_the_best_and_their_scores(run):
    task = load(run)
    (found,) = task.translate(["one two ten"], SearchConfig(beams=4, length_penalty=0.5))
    assert found[0].text == "dix deux un"
    assert [t.score for t in found] == sorted((t.score for t in found), reverse=True)
    assert len({t.text for t in found}) == len(found) == 4


def test_order_and_empty_sentences(run):
    task = load(run)
    texts = ["one two ten", "", "dog", "cat cat six ten", "  "]
    together = list(task.best(texts))
    assert together == [next(task.best([text])) for text in texts]
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
    train(recipe_for("some", "--train.epochs", "1"), "run", mode="quiet")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert load(tmp_path / "run").learned_from()


def test_without_held_out_pairs_the_last_weights_are_kept(pairs, tmp_path):
    recipe = recipe_for(pairs, "--data.validation", "0", "--train.epochs", "3")
    train(recipe, tmp_path / "run", mode="quiet")
    assert json.loads((tmp_path / "run" / "result.json").read_text())["best_epoch"] == 3


def test_ten_thousand_words_are_translated_in_stretches(run, capsys):
    task, words = load(run), ["one", "two", "six", "ten", "cat"] * 2000
    parts = stretches(task.words, " ".join(words))
    assert max(len(task.words.read(part)) for part in parts) <= LONGEST + 1
    assert " ".join(parts).split() == words
    (found,) = task.translate([" ".join(words[:600])], SearchConfig(beams=1))
    expected = [next(task.best([p], SearchConfig(beams=1))) for p in parts[:2]]
    assert found[0].text.startswith(" ".join(expected))
    bytes_ = Vocabularies(*[BytePair.train(["the cat"] * 9, 270, stop=True)] * 2)
    parts = stretches(bytes_, "日本" * 125)  # three tokens each: no sentence any more
    assert "".join(parts) == "日本" * 125
    assert max(len(bytes_.read(part)) for part in parts) <= LONGEST + 1
    unbroken = stretches(task.words, "x" * 100_000)
    assert "".join(unbroken) == "x" * 100_000
    assert main(["translate", str(run), " ".join(words[:600]), "--beams", "1", "--show"]) == 2
    assert "an alignment is drawn of 512 at most" in capsys.readouterr().err


@pytest.mark.parametrize(
    "changes",
    [
        ("--model.kind", "transformer", "--model.hidden", "32", "--model.layers", "1",
         "--tokenizer.joint", "true", "--tokenizer.kind", "characters"),
        ("--model.context", "none", "--train.metric", "bleu"),
        ("--model.context", "fixed", "--model.cell", "lstm", "--forcing.student", "0.5"),
        ("--tokenizer.lower", "true", "--train.average", "last", "--train.smoothing", "0.1"),
    ],
)  # fmt: skip
def test_every_kind_trains_and_resumes(pairs, tmp_path, changes):
    recipe = recipe_for(pairs, "--train.epochs", "2", *changes)
    train(recipe, tmp_path / "run", mode="quiet")
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    newest = max((tmp_path / "run" / "checkpoints").iterdir(), key=lambda p: int(p.name[5:]))
    for file in newest.iterdir():
        file.unlink()
    newest.rmdir()
    assert isinstance(resume(tmp_path / "run", mode="quiet"), Translating)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize("joint", ["true", "false"])
def test_words_fall_apart_in_training_only(pairs, joint):
    changes = ("byte-pair", "--tokenizer.joint", joint, "--tokenizer.lower", "true")
    recipe = recipe_for(pairs, "--tokenizer.size", "280", "--tokenizer.kind", *changes)
    usual = Translating.from_recipe(recipe)
    loose = Translating.from_recipe(build(TranslateRecipe, override(to_table(recipe), LOOSELY)))
    assert loose.words == usual.words
    cpu, read = torch.device("cpu"), {}
    for epoch in (0, 1, 2, 0):
        batches = loose.batches(epoch)
        assert sorted(k for batch in batches for k in batch) == list(
            range(len(loose.pairs["train"]))
        )
        for batch in batches:
            about, target, following = loose.collate("train", batch, cpu)
            assert loose.weight(batch) == int((following != PAD).sum())
            assert max(about.ids.numel(), target.numel()) <= recipe.train.batch
            for k, ids, text in zip(batch, about.ids.tolist(), target.tolist(), strict=True):
                pair = loose.pairs["train"][k]
                assert loose.words.source.decode(ids) == pair.source
                assert loose.words.target.decode(text) == pair.target
                read.setdefault(k, []).append([*filter(None, ids)])
                assert read[k][-1][-1] == loose.words.source.stop
    assert all(splits[0] == splits[3] for splits in read.values())
    assert sum(splits[0] != splits[1] for splits in read.values()) > len(read) / 2
    assert loose.measured_in("validation") == usual.measured_in("validation")
    assert loose.loss_on("validation", Crew(cpu)) == usual.loss_on("validation", Crew(cpu))


def test_words_fall_apart_the_same_in_the_middle_of_an_epoch(pairs, tmp_path):
    """Taken up there, a run goes on with the pieces of that epoch."""
    changes = ("--tokenizer.kind", "byte-pair", "--tokenizer.size", "270", *LOOSELY)
    recipe = recipe_for(pairs, "--train.epochs", "2", "--train.save_every", "3", *changes)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    train(recipe, whole, mode="quiet")
    train(recipe, broken, mode="quiet")
    kept = sorted((broken / "checkpoints").iterdir(), key=lambda p: int(p.name[5:]))
    assert int(kept[0].name[5:]) % 3 == 0  # not an epoch's end
    for later in kept[1:]:
        shutil.rmtree(later)
    resume(broken, mode="quiet")
    weights = [(run / "model.safetensors").read_bytes() for run in (whole, broken)]
    assert weights[0] == weights[1]


def test_the_command_line(run, tmp_path, capsys):
    file = tmp_path / "some.txt"
    file.write_text("one two\n\ncat dog\r\n")
    assert main(["translate", str(run), "ten one", str(file)]) == 0
    assert capsys.readouterr().out.splitlines() == ["un dix", "deux un", "", "chien chat"]
    assert main(["translate", str(run), "ten one cat", "--n-best", "2"]) == 0
    first, second = (line.split("\t") for line in capsys.readouterr().out.splitlines())
    assert (first[0], second[0], first[2]) == ("1", "1", "chat un dix")
    assert float(first[1]) > float(second[1])
    assert main(["translate", str(run), "ten one cat", "--show"]) == 0
    assert "chat" in capsys.readouterr().out
    assert main(["translate", str(run), "ten one cat", "--show", "--out", f"{tmp_path}/a.svg"]) == 0
    assert "<svg" in (tmp_path / "a.svg").read_text()
    assert capsys.readouterr().out == "chat un dix\n"
    assert main(["evaluate", str(run), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["test_bleu"] == json.loads((run / "result.json").read_text())["test_bleu"]


def test_a_sentence_stays_on_its_line_and_as_it_is(run, monkeypatch, capsys):
    broken = Written("one\ntwo\tthree\u2028می\u200cخواهم\u00a0!", (), 0.0, -1.0)
    monkeypatch.setattr(Translating, "translate", lambda *_: iter([[broken]]))
    for options, fields in (((), 1), (("--n-best", "1"), 3)):
        assert main(["translate", str(run), "cat", *options]) == 0
        (line,) = capsys.readouterr().out.splitlines()
        assert len(line.split("\t")) == fields
        assert line.endswith("می\u200cخواهم\u00a0!")


def test_at_a_terminal_each_sentence_is_answered(run, monkeypatch, capsys):
    typed = iter(["ten one", "", "cat dog"])

    def answer(prompt):
        assert prompt == "> "
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", answer)
    assert main(["translate", str(run)]) == 0
    assert capsys.readouterr().out.splitlines() == ["un dix", "", "chien chat", ""]
    typed = iter(["ten one", "cat dog"])
    assert main(["translate", str(run), "--show"]) == 0
    told = capsys.readouterr().out
    assert "ten one → un dix" in told
    assert "cat dog → chien chat" in told
    typed = iter(["ten one", "cat dog"])
    assert main(["translate", str(run), "--n-best", "1"]) == 0
    assert [line[:2] for line in capsys.readouterr().out.splitlines()] == ["1\t", "2\t", ""]
    assert main(["translate", str(run), "--show", "--out", "map.svg"]) == 2
    assert "--out is of one sentence" in capsys.readouterr().err


def test_judging_two(run, pairs, tmp_path, capsys):
    weaker = tmp_path / "weaker"
    train(recipe_for(pairs, "--train.epochs", "2", "--model.context", "none"), weaker, mode="quiet")
    assert main(["judge", str(weaker), str(run), "--format", "json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["verdicts"]
    own = json.loads((run / "result.json").read_text())["test_bleu"]
    assert second["scores"]["bleu"]["score"] == pytest.approx(own)
    lead = second["against_first"]["difference"]
    assert lead["low"] > 0
    assert lead["value"] == pytest.approx(own - first["scores"]["bleu"]["score"])
    assert sum(b["sentences"] for b in second["buckets"]) == second_count(run)
    for form in ("text", "html"):
        assert main(["judge", str(weaker), str(run), "--format", form]) == 0
        assert "weaker" in capsys.readouterr().out
    assert main(["judge", str(run), str(weaker), "--out", str(tmp_path / "lengths.svg")]) == 0
    assert "words of the source" in (tmp_path / "lengths.svg").read_text()
    assert "over the first" in capsys.readouterr().out
    assert main(["judge", str(run), str(run)]) == 2
    assert "named twice" in capsys.readouterr().err
    alike = tmp_path / "elsewhere" / "weaker"
    shutil.copytree(weaker, alike)
    assert main(["judge", str(weaker), str(alike), "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)["verdicts"]
    assert [verdict["name"] for verdict in told] == [str(weaker), str(alike)]


def test_a_judge_says_who_has_learned_the_answers(run, pairs, tmp_path, capsys, monkeypatch):
    lines = pairs.read_text().splitlines()
    (tmp_path / "known.tsv").write_text("\n".join(lines[:60]) + "\n")
    (tmp_path / "new.tsv").write_text("en\tfr\nten ten ten ten ten ten\tdix dix dix dix dix dix\n")
    assert main(["judge", str(run), "--data", str(tmp_path / "known.tsv")]) == 0
    known = {(p.source, p.target) for p in load(run).learned_from()}
    learned = sum(tuple(line.split("\t")) in known for line in lines[1:60])
    assert 0 < learned < 59
    assert f"trained on {learned} of these 59 pairs" in capsys.readouterr().out
    assert main(["judge", str(run), "--data", str(tmp_path / "new.tsv")]) == 0
    assert "trained on" not in capsys.readouterr().out
    shutil.copy(pairs, tmp_path / "copied.tsv")  # other data by its name alone
    other, few = tmp_path / "other", ("--train.epochs", "1", "--seed", "2")
    train(recipe_for(tmp_path / "copied.tsv", *few), other, mode="quiet")
    assert main(["judge", str(run), str(other)]) == 0
    told = capsys.readouterr().out
    assert "other was trained on" in told
    assert "reversed was trained on" not in told
    monkeypatch.setattr(Translating, "learned_from", gone)
    assert main(["judge", str(run), "--data", str(tmp_path / "new.tsv")]) == 0
    assert "trained on is not there" in capsys.readouterr().out


def gone(_task):
    raise UserError("the data are elsewhere")


def test_a_result_says_how_much_of_its_test_was_trained_on(pairs, tmp_path):
    header, *lines = pairs.read_text().splitlines()
    known = {"train": lines[:90], "test": lines[60:100]}  # thirty of them in both
    for part, some in known.items():
        (tmp_path / f"{part}.tsv").write_text("\n".join([header, *some]) + "\n")
    train(recipe_for(tmp_path, "--train.epochs", "1"), tmp_path / "run", mode="quiet")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    learned = {(p.source, p.target) for p in load(tmp_path / "run").learned_from()}
    both = sum(tuple(line.split("\t")) in learned for line in known["test"])
    assert 20 < both <= 30
    assert (result["test_pairs"], result["test_pairs_learned"]) == (40, both)


def test_pairs_that_came_later_were_not_learned_from(pairs, tmp_path):
    data = tmp_path / "pairs.tsv"
    data.write_text(pairs.read_text())
    train(recipe_for(data, "--train.epochs", "1"), tmp_path / "run", mode="quiet")
    assert load(tmp_path / "run").learned_from()
    data.write_text(pairs.read_text() + "ten ten ten ten ten ten\tdix dix dix dix dix dix\n")
    with pytest.raises(UserError, match="not what this run was trained on"):
        load(tmp_path / "run").learned_from()


def test_no_blanks_before_a_translation(run):
    words = BytePair.train(["the cat"] * 9, 270, stop=True)
    found = Hypothesis(tuple(words.encode(" the cat")), 0.0, 0.0)
    assert spelt(load(run).model, Vocabularies(words, words), "le chat", found) == "the cat"


def second_count(run):
    return json.loads((run / "result.json").read_text())["test_pairs"]


def test_a_file_that_is_not_there_is_no_sentence_but_a_folders_name_may_be_one(
    run, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cat").mkdir()
    assert main(["translate", str(run), "cat", "i.e.", "Node.js", "and/or"]) == 0
    assert capsys.readouterr().out.startswith("chat")
    assert main(["translate", str(run), "cat/" + "x" * 300 + "/dog"]) == 0  # too long for a name
    capsys.readouterr()
    for missing in ("some.txt", "TEST.FR", "data/test.en.gz", "cat/test", "cat/"):
        assert main(["translate", str(run), missing]) == 2
        assert f"{missing}: no such file" in capsys.readouterr().err


def test_bad_input(run, pairs, tmp_path, capsys):
    assert main(["translate", str(run), "a", "b", "--show"]) == 2
    assert "one sentence" in capsys.readouterr().err
    assert main(["translate", str(run), "ten", "--n-best", "0"]) == 2
    assert "--n-best" in capsys.readouterr().err
    with pytest.raises(UserError, match="one vocabulary"):
        recipe_for(pairs, "--model.shared", "true")
    with pytest.raises(UserError, match="recurrent"):
        recipe_for(pairs, "--model.kind", "transformer", "--forcing.student", "0.5")
    train(recipe_for(pairs, "--train.epochs", "1", "--model.context", "none"), tmp_path / "none",
          mode="quiet")  # fmt: skip
    assert main(["translate", str(tmp_path / "none"), "ten", "--show"]) == 2
    assert "looks at nothing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--n-best", "2", "--temperature", "1"], "--temperature makes one"),
        (["--n-best", "2", "--show"], "--show makes one"),
        (["--out", "map.svg"], "--out is of the alignment, which --show draws"),
        (["--layer", "1"], "--layer is of the alignment"),
        (["--words"], "--words is of the alignment"),
        (
            ["--show", "--out", "map.pdf"],
            "map.pdf: a name ends in .html, .svg, .png, .json or .txt",
        ),
        (["--temperature", "1", "--beams", "3"], "--beams is of a search"),
        (["--seed", "3"], "--temperature T asks for"),
        (["--length-penalty", "nan"], "length_penalty = nan: a number from -10 to 10"),
        (["--length-penalty", "1e9"], "length_penalty = 1000000000.0: a number from -10 to 10"),
    ],
)
def test_what_makes_no_sense_is_refused(run, options, told, capsys):
    assert main(["translate", str(run), "ten one", *options]) == 2
    assert told in capsys.readouterr().err


def test_what_is_shown_was_searched_for_as_asked(run, capsys):
    """A wild draw that is another translation than the best."""
    wild = ["--temperature", "50", "--seed", "3"]
    assert main(["translate", str(run), "ten one cat", *wild]) == 0
    drawn = capsys.readouterr().out.strip()
    assert drawn != "chat un dix"
    assert main(["translate", str(run), "ten one cat", *wild, "--show", "--format", "json"]) == 0
    *rows, _ = json.loads(capsys.readouterr().out)["rows"]
    assert [row.strip() for row in rows] == drawn.split()


def test_nothing_has_no_alignment(run, capsys):
    assert main(["translate", str(run), " ", "--show"]) == 2
    assert "an empty text" in capsys.readouterr().err


def test_whoever_writes_to_a_file_is_not_asked(run, monkeypatch, capsys):
    """The prompts would stand in it."""
    lines = io.TextIOWrapper(io.BytesIO(b"ten one\n"))
    lines.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", lines)
    assert main(["translate", str(run)]) == 0
    assert capsys.readouterr().out == "un dix\n"


def test_what_no_text_has_is_not_drawn(run):
    task = load(run)
    hot = Sampling(temperature=1e6, seed=1)
    found = [t for some in task.translate(["one two ten cat dog"] * 20, sampling=hot) for t in some]
    assert not {PAD, START} & {token for t in found for token in t.tokens}


def test_runs_that_held_out_other_sentences_are_not_compared(run, pairs, tmp_path, capsys):
    other = tmp_path / "other"
    train(recipe_for(pairs, "--train.epochs", "1", "--seed", "2"), other, mode="quiet")
    assert main(["judge", str(run), str(other)]) == 2
    assert "other held out other sentences" in capsys.readouterr().err
    assert main(["judge", str(run), str(other), "--data", str(pairs)]) == 0


def test_nor_by_a_sets_name():
    tasks = {
        name: Translating.from_recipe(recipe_for("emoji-names", "--seed", seed))
        for name, seed in (("one", "0"), ("other", "1"))
    }
    for data in (None, "emoji-names"):
        with pytest.raises(UserError, match="other held out other sentences of emoji-names"):
            judge(tasks, data)


def test_gradients_are_on_while_a_translation_waits(run):
    found = load(run).best(["one two", "ten"])
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

    monkeypatch.setattr("workings.tasks.translate.beam_search", search)
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
    assert "without --data" in capsys.readouterr().err


def test_a_classifier_does_not_search(toy, tmp_path, capsys):
    table = {"task": "classify", "data": {"set": str(toy)}, "model": {"kind": "ngrams"}}
    train(build(ClassifyRecipe, table | {"train": {"epochs": 1}}), tmp_path / "run", mode="quiet")
    assert main(["evaluate", str(tmp_path / "run"), "--beams", "2"]) == 2
    assert "--beams is for translators and captioners" in capsys.readouterr().err
