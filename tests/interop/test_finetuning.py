"""Models in Hugging Face's format that are trained further, or become classifiers."""

import json

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import workings
from workings.cli import main
from workings.errors import UserError
from workings.recipes import ClassificationRecipe
from workings.storage import read_json, read_tensors
from workings.training.runs import load

TEXT = "the low tree is lower than the lowest tower, and the tower is new\n" * 40
PAIRS = ("en\tfr\n" + "".join(f"{'ab' * k}\t{'ba' * k}\n" for k in range(1, 40))) * 4
SIZES = {
    "gpt2": {"n_positions": 32, "n_embd": 16, "n_layer": 2, "n_head": 2},
    "llama": {
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "max_position_embeddings": 32,
    },
}


@pytest.fixture(scope="module", params=SIZES)
def language_folder(request, tmp_path_factory):
    """A tiny random model of Hugging Face's own code, with a tokenizer."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("models") / request.param
    engine = Tokenizer(models.BPE())
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    engine.train_from_iterator([TEXT], trainer)
    size = engine.get_vocab_size()
    tokens = {"vocab_size": size, "bos_token_id": 0, "eos_token_id": 0}
    config = {"gpt2": transformers.GPT2Config, "llama": transformers.LlamaConfig}[request.param]
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config(**SIZES[request.param], **tokens))
    model.save_pretrained(folder)
    engine.save(str(folder / "tokenizer.json"))
    return folder


def test_an_imported_language_model_is_trained_further(language_folder, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    settings = ["--data.context_length", "16", "--data.eval_every", "20", "--data.sample", "0"]
    settings += ["--train.epochs", "1", "--train.batch_size", "8", "--train.learning_rate", "0.01"]
    run = tmp_path / "run"
    arguments = ["train", "--from", str(language_folder), "--data.set", str(text), "--quiet"]
    assert main([*arguments, "--out", str(run), *settings]) == 0
    imported = tmp_path / "imported"
    assert main(["import", str(language_folder), "--out", str(imported)]) == 0
    initial = read_tensors(run / "initial.safetensors")
    for name, weight in read_tensors(imported / "model.safetensors").items():
        assert torch.equal(weight, initial[name]), name
    before, after = (load(folder).evaluate_on(str(text))["test_loss"] for folder in (imported, run))
    assert after < before - 1


def test_an_imported_language_model_becomes_a_classifier(language_folder, tmp_path):
    data = [(f"the {word} tree", word) for word in ("low", "new") for _ in range(20)]
    data = [(f"{text} {k}", label) for k, (text, label) in enumerate(data)]
    recipe = workings.recipes.change_section(ClassificationRecipe(), "data", max_length=32)
    run = tmp_path / "run"
    task = workings.train(recipe, data, start_from=language_folder, epochs=2, out=run)
    assert read_json(run / "environment.json")["initialized_from"]["new"] == [
        "head.weight",
        "head.bias",
    ]
    assert torch.equal(load(run).predict(["a low tree"]), task.predict(["a low tree"]))


def test_an_imported_marian_is_trained_further(opus, tmp_path):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("en\tfr\n" + "".join(f"hello {k} world\tworld {k}\n" for k in range(60)))
    run, imported = tmp_path / "run", tmp_path / "imported"
    arguments = ["train", "--from", str(opus), "--data.set", str(pairs), "--quiet"]
    settings = ["--train.epochs", "3", "--train.batch_size", "200", "--search.beams", "1"]
    assert main([*arguments, "--out", str(run), *settings]) == 0
    assert main(["import", str(opus), "--out", str(imported)]) == 0
    before, after = (
        load(folder).evaluate_on(str(pairs))["test_loss"] for folder in (imported, run)
    )
    assert after < before - 1
    assert load(run).tokenizers == load(imported).tokenizers


def test_an_imported_model_has_no_data_of_its_own(opus, tmp_path):
    with pytest.raises(UserError, match=r"without training data: --data\.set FILE"):
        workings.train(start_from=opus)
    assert main(["import", str(opus), "--out", f"{tmp_path}/run"]) == 0
    with pytest.raises(UserError, match="to train it further: workings train --from"):
        workings.training.runs.resume(tmp_path / "run")


@pytest.mark.parametrize(
    ("architecture", "new"),
    [
        ("BertForSequenceClassification", ["head"]),
        ("BertModel", ["head"]),
        ("BertForMaskedLM", ["head", "pooler"]),
        ("DistilBertForMaskedLM", ["head", "pooler"]),
        ("DistilBertModel", ["head", "pooler"]),
    ],
)
def test_a_bert_with_or_without_a_head_learns_other_labels(architecture, new, tmp_path, capsys):
    transformers = pytest.importorskip("transformers")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "film", "is", "good", "bad"]
    names = (
        ("dim", "n_layers", "n_heads", "hidden_dim")
        if architecture.startswith("Distil")
        else ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    )
    sizes = dict(zip(names, (16, 1, 2, 16), strict=True))
    model_class = getattr(transformers, architecture)
    config = model_class.config_class(vocab_size=len(words), max_position_embeddings=20, **sizes)
    folder, run = tmp_path / "bert", tmp_path / "run"
    model = model_class(config)
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    data = tmp_path / "films.jsonl"
    rows = [
        {"review": f"{'the ' * (k % 9)}film is {word}{' film' * (k // 9)}", "stars": word}
        for word in ("good", "bad")
        for k in range(27)
    ]
    data.write_text("\n".join(map(json.dumps, rows)))
    arguments = ["train", "--from", str(folder), "--data", str(data), "--out", str(run)]
    settings = ["--train.freeze", '["embedding"]', "--minutes", "0.1", "--quiet"]
    assert main([*arguments, *settings]) == 0
    record = read_json(run / "environment.json")["initialized_from"]
    assert record["new"] == [f"{layer}.{part}" for layer in new for part in ("weight", "bias")]
    task = load(run)
    assert task.labels == ("bad", "good")
    assert task.recipe.train.learning_rate == 0.0025  # by the width
    weights = {n: p for n, p in model.named_parameters() if "word_embeddings.weight" in n}
    assert torch.equal(task.model.embedding.weight, *weights.values())  # frozen
    is_classifier = architecture.endswith("Classification")
    assert main(["predict", str(folder), "the film is good"]) == (0 if is_classifier else 2)
    assert ("to train one: workings train --from" in capsys.readouterr().err) != is_classifier
