"""Exported language models, called as users of transformers call them: the same texts as ours."""

import json

import pytest
import torch
import toys

from workings.cli import main
from workings.data.corpora import read_corpus
from workings.recipes import read_recipe
from workings.tasks.language_modeling import LanguageModeling
from workings.training.runs import load, train_recipe

LAYOUTS = {
    "gpt2": ("--model.positions", "learned"),
    "gpt-neox": (),
    "llama": (
        *("--model.norm_kind", "rms", "--model.gated", "true", "--model.bias", "false"),
        *("--model.activation", "silu"),
    ),
}
BYTE_PAIRS = ("--tokenizer.kind", "byte-pair", "--tokenizer.vocab_size", "300")


def train_and_export(recipe, layout, folder):
    train_recipe(recipe, folder / "run", mode="quiet")
    arguments = ["export", str(folder / "run"), "--to", layout, "--out", str(folder / layout)]
    assert main(arguments) == 0
    return folder / "run", folder / layout


@pytest.fixture(scope="module", params=LAYOUTS)
def exported(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    toys.write_corpus(folder / "text.txt")
    changes = (*LAYOUTS[request.param], *BYTE_PAIRS, "--model.tie_embeddings", "true")
    recipe = toys.corpus_recipe(folder / "text.txt", *changes, "--train.epochs", "1")
    return train_and_export(recipe, request.param, folder)


def generate(transformers, folder, texts, **settings):
    """Continue a padded batch of texts as the model card says."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    return tokenizer.batch_decode(model.generate(**batch, **settings), skip_special_tokens=True)


def test_padded_batch_has_our_completions(exported, transformers):
    run, folder = exported
    task = load(run, LanguageModeling)
    texts = ["the cat", "a", "dogs see the", "<s> two"]
    expected = [task.complete(text, 6) for text in texts]
    assert generate(transformers, folder, texts, max_new_tokens=6) == expected


def test_context_length_and_limits_are_the_recipes(exported, transformers):
    run, folder = exported
    task = load(run, LanguageModeling)
    config = json.loads((folder / "config.json").read_text())
    if folder.name == "gpt2":
        assert config["n_positions"] == task.model.max_positions
    else:
        assert config["max_position_embeddings"] == task.recipe.data.context_length == 16
    settings = transformers.GenerationConfig.from_pretrained(folder)
    assert (settings.max_length, settings.pad_token_id) == (16, task.tokenizer.pad_id)
    card = (folder / "README.md").read_text()
    for part in ("pipeline_tag: text-generation", "AutoModelForCausalLM", "text.txt", "[model]"):
        assert part in card, part
    assert str(folder.parent) not in card


def test_exported_model_is_imported_unchanged(exported, tmp_path):
    run, folder = exported
    assert main(["import", str(folder), "--out", str(tmp_path / "back")]) == 0
    before, after = load(run, LanguageModeling), load(tmp_path / "back", LanguageModeling)
    ids = torch.tensor([before.tokenizer.encode("the cat sees")])
    with torch.no_grad():
        assert torch.equal(after.model(ids)[0], before.model(ids)[0])


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_two_hundred_completions(layout, transformers, tmp_path):
    changes = (*LAYOUTS[layout], "--model.tie_embeddings", "true", "--train.epochs", "1")
    recipe = read_recipe("python-transformer", changes)
    run, folder = train_and_export(recipe, layout, tmp_path)
    task = load(run, LanguageModeling)
    lines = next(iter(read_corpus("python-source"))).splitlines()
    texts = list(dict.fromkeys(line[:20].rstrip() for line in lines if line.strip()))[:200]
    assert len(texts) == 200
    expected = [task.complete(text, 20) for text in texts]
    batches = [texts[k : k + 40] for k in range(0, 200, 40)]
    outputs = [
        text
        for batch in batches
        for text in generate(transformers, folder, batch, max_new_tokens=20)
    ]
    assert outputs == expected
