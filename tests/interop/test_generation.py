"""Exported translators, called as users of transformers call them: the same texts as ours."""

import json
from dataclasses import replace

import pytest
import torch
import toys

from workings.cli import main
from workings.interop.conversion import FolderExporter
from workings.interop.model_card import RunRecord
from workings.models.translation import START
from workings.recipes import SearchConfig, read_recipe
from workings.tasks.translation import Translation, collate_sources
from workings.training.runs import load, train_recipe

LAYOUTS = {"pre": "pegasus", "post": "marian"}
TRANSFORMER = (
    *("--model.kind", "transformer", "--model.layers", "1", "--model.d_model", "32"),
    *("--train.epochs", "15", "--train.learning_rate", "0.02"),
    *("--search.max_length", "12"),
)
ONE_VOCABULARY = (
    *("--tokenizer.kind", "byte-pair", "--tokenizer.vocab_size", "300"),
    *("--tokenizer.shared_vocab", "true"),
)
TWO_VOCABULARIES = ("--tokenizer.shared_vocab", "false", "--model.share_embeddings", "false")


def train_and_export(recipe, folder):
    """Train a recipe, and export it to the layout of its norms; return run and exported folder."""
    train_recipe(recipe, folder / "run", mode="quiet")
    layout = LAYOUTS[recipe.model.settings()["norm"]]
    arguments = ["export", str(folder / "run"), "--to", layout, "--out", str(folder / layout)]
    assert main(arguments) == 0
    return folder / "run", folder / layout


@pytest.fixture(scope="module", params=["pre", "post"])
def exported(request, few_pairs, tmp_path_factory):
    recipe = toys.pairs_recipe(
        few_pairs, *TRANSFORMER, *ONE_VOCABULARY, "--model.norm", request.param
    )
    return train_and_export(recipe, tmp_path_factory.mktemp(request.param))


def generate(transformers, folder, texts, source=".", target=".", **settings):
    """Translate texts as the model card says."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / source)
    target_tokenizer = transformers.AutoTokenizer.from_pretrained(folder / target)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    return target_tokenizer.batch_decode(
        model.generate(**batch, **settings), skip_special_tokens=True
    )


def translate(run, texts, beams):
    """Return our translations by text, with the recipe's maximum length.

    Without one it would depend on the length of the source; transformers has one for all texts.
    """
    task = load(run, Translation)
    longest = task.recipe.search.max_length
    assert longest
    search = SearchConfig(beams=beams, length_penalty=0.0, max_length=longest)
    return dict(zip(texts, task.translate_best(texts, search), strict=True))


def test_generate_finds_our_translations(exported, few_pairs, transformers):
    run, folder = exported
    texts = [line.split("\t")[0] for line in few_pairs.read_text().splitlines()[1:21]]
    expected = translate(run, texts, beams=3)
    assert generate(transformers, folder, list(expected)) == list(expected.values())
    assert len(set(expected.values())) > 10
    assert json.loads((folder / "generation_config.json").read_text())["max_length"] == 14


def test_long_translations_are_cut_at_the_same_token(exported, few_pairs, transformers, tmp_path):
    run, _ = exported
    task = load(run, Translation)
    search = replace(task.recipe.search, max_length=3, length_penalty=0.0)
    recipe = replace(task.recipe, search=search)
    layout = LAYOUTS[recipe.model.settings()["norm"]]
    record = replace(RunRecord.read(run), recipe=recipe)
    folder = tmp_path / layout
    task.export(FolderExporter(layout, folder, record))
    texts = [line.split("\t")[0] for line in few_pairs.read_text().splitlines()[1:21]]
    ours = [each[0] for each in task.translate(texts, search)]
    assert sum(len(each.tokens) == 3 for each in ours) > 10
    assert generate(transformers, folder, texts) == [each.text for each in ours]


def test_logits_of_a_padded_batch_are_ours(exported, transformers):
    run, folder = exported
    task = load(run, Translation)
    texts, targets = ["the cat", "a red house and the cat"], ["chat le noir", "et maison"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    labels = tokenizer(targets, return_tensors="pt", padding=True)["input_ids"]
    start = torch.full((2, 1), START)
    decoder_ids = torch.cat((start, labels[:, :-1]), 1)
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    source = collate_sources([task.tokenizers.encode_source(text) for text in texts], task.model)
    assert torch.equal(batch["input_ids"], source.ids)
    with torch.no_grad():
        logits = model(**batch, decoder_input_ids=decoder_ids).logits
        expected = task.model(source, decoder_ids)
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)


def test_exported_translator_is_imported_unchanged(exported, tmp_path):
    run, folder = exported
    assert main(["import", str(folder), "--out", str(tmp_path / "back")]) == 0
    before, after = load(run, Translation), load(tmp_path / "back", Translation)
    assert after.tokenizers == before.tokenizers
    weights = after.model.state_dict()
    for name, weight in before.model.state_dict().items():
        assert torch.equal(weights[name], weight), name


def test_search_of_the_recipe_is_written(exported, few_pairs, tmp_path, capsys):
    run, folder = exported
    settings = json.loads((folder / "generation_config.json").read_text())
    assert settings["num_beams"] == 3
    assert (settings["length_penalty"], settings["early_stopping"]) == (0.0, "never")
    layout = folder.name
    main(["export", str(run), "--to", layout, "--out", str(tmp_path / "again")])
    assert "transformers has another length penalty" in capsys.readouterr().err
    card = (folder / "README.md").read_text()
    for part in ("pipeline_tag: translation", "- fr", "| BLEU |", "AutoTokenizer", "[search]"):
        assert part in card, part
    assert few_pairs.name in card
    assert str(few_pairs.parent) not in card


def test_two_vocabularies_are_two_tokenizers(few_pairs, transformers, tmp_path, capsys):
    options = (*TRANSFORMER, *TWO_VOCABULARIES, "--model.norm", "post")
    run, folder = train_and_export(toys.pairs_recipe(few_pairs, *options), tmp_path)
    assert "load the tokenizers from source/ and target/" in capsys.readouterr().err
    texts = [line.split("\t")[0] for line in few_pairs.read_text().splitlines()[1:21]]
    expected = translate(run, texts, beams=3)
    outputs = generate(transformers, folder, list(expected), "source", "target")
    assert outputs == list(expected.values())
    assert len(set(outputs)) > 5


@pytest.mark.slow
@pytest.mark.parametrize("norm", LAYOUTS)
def test_two_hundred_names_of_emoji(norm, transformers, tmp_path):
    recipe = read_recipe("emoji-french", ["--model.norm", norm, "--search.max_length", "20"])
    run, folder = train_and_export(recipe, tmp_path)
    task = load(run, Translation)
    pairs = [*task.load_test_pairs(), *task.load_train_pairs()]
    texts = list(dict.fromkeys(pair.source for pair in pairs))[:200]
    for beams in (recipe.search.beams, 4, 1):
        expected = translate(run, texts, beams)
        changes = {} if beams == recipe.search.beams else {"num_beams": beams}
        batches = [texts[k : k + 40] for k in range(0, len(texts), 40)]
        outputs = [
            text for batch in batches for text in generate(transformers, folder, batch, **changes)
        ]
        same = sum(expected[text] == output for text, output in zip(texts, outputs, strict=True))
        assert same == len(texts)
