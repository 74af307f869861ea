"""BERT and DistilBERT classifiers in Hugging Face's format, against Hugging Face's own code."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from workings.cli import main
from workings.errors import UserError
from workings.interop.bert import read_bert, write_bert
from workings.interop.huggingface import read_config
from workings.interpret.attention import collect
from workings.interpret.attribution import explain
from workings.interpret.heads import read_head
from workings.models.classifiers import build_classifier
from workings.tasks.classification import Classification
from workings.training.runs import load

transformers = pytest.importorskip("transformers")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCABULARY = [
    *["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "film", "is", "good", "bad", "not"],
    *["!", ".", "##ly", "##er", *LETTERS, *(f"##{letter}" for letter in LETTERS)],
]
TEXTS = ["The film is good!", "Not badly", "naïve 映 xyz", "the " * 30]
LABELS = {0: "negative", 1: "neutral", 2: "positive"}


def make_hf_model(kind, **changes):
    torch.manual_seed(0)
    labels = {"id2label": LABELS, "label2id": {v: k for k, v in LABELS.items()}}
    if kind == "bert":
        config = transformers.BertConfig(
            vocab_size=len(VOCABULARY),
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=24,
            max_position_embeddings=20,
            **labels | changes,
        )
        model = transformers.BertForSequenceClassification(config)
    else:
        config = transformers.DistilBertConfig(
            vocab_size=len(VOCABULARY),
            dim=16,
            n_layers=2,
            n_heads=2,
            hidden_dim=24,
            max_position_embeddings=20,
            **labels | changes,
        )
        model = transformers.DistilBertForSequenceClassification(config)
    rng = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn(weight.shape, generator=rng))
    model.set_attn_implementation("eager")
    return model.eval()


@pytest.fixture(scope="module", params=["bert", "distilbert"])
def imported(request, tmp_path_factory):
    """Hugging Face's model and tokenizer, and the run that was imported from their folder."""
    folder = tmp_path_factory.mktemp(request.param)
    model = make_hf_model(request.param)
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    tokenizer = transformers.BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=20)
    assert main(["import", str(folder), "--out", str(folder / "run")]) == 0
    return model, tokenizer, load(folder / "run", Classification), folder


def test_probabilities_of_a_padded_batch_are_hugging_faces(imported):
    model, tokenizer, task, _ = imported
    batch = tokenizer(TEXTS, padding=True, truncation=True, return_tensors="pt")
    with torch.no_grad():
        expected = torch.softmax(model(**batch).logits, -1)
    torch.testing.assert_close(task.predict(TEXTS), expected, atol=1e-5, rtol=0)
    assert expected.std(0).min() > 0.01
    assert task.labels == tuple(LABELS.values())
    prediction = next(task.predict_sources([TEXTS[0]]))
    assert prediction["label"] == LABELS[int(expected[0].argmax())]


def test_ids_are_hugging_faces_but_for_special_tokens_in_texts(imported):
    _, tokenizer, task, _ = imported
    for text in ("The film's naïve, 映 goodly!", "", "  bad\n"):
        framed = tokenizer(text).input_ids
        assert [*task.tokenizer.prefix_ids, *task.encode(text)] == framed[:-1]
        assert task.tokenizer.suffix_ids == (framed[-1],)
    assert VOCABULARY.index("[SEP]") not in task.encode("a [SEP] b")


def test_attention_weights_are_hugging_faces(imported):
    model, tokenizer, task, _ = imported
    text = TEXTS[0]
    batch = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        expected = model(**batch, output_attentions=True).attentions
    (stack,) = collect(task, text)
    assert list(stack.key_tokens) == ["[CLS]", "The", "film", "is", "good", "!", "[SEP]"]
    for layer, weights in zip(stack.weights, expected, strict=True):
        torch.testing.assert_close(torch.from_numpy(layer), weights[0], atol=1e-5, rtol=0)
    assert list(stack.without_padding().key_tokens) == list(stack.key_tokens)


def test_a_head_is_a_worked_problem(imported):
    *_, task, _ = imported
    head = read_head(task, TEXTS[0], 2, 1)
    assert max(head.max_differences().values()) < 1e-5
    assert "[CLS]" in head.to_file()


def test_predictions_are_attributed_to_the_tokens_of_the_text(imported):
    *_, task, _ = imported
    text = "The film is good!"
    attribution = explain(task, text)
    assert [text[a:b] for a, b in attribution.spans] == ["The", "film", "is", "good", "!"]
    by_method = {a.method: a for a in attribution.token_attributions}
    assert {len(a.values) for a in by_method.values()} == {5}
    ids = task.encode(text)
    best, second = (list(task.labels).index(n) for n in (attribution.label, attribution.runner_up))
    with torch.no_grad():
        without = task.compute_logits([ids[:3] + ids[4:]])[0]
    assert by_method["occlusion"].values[3] == pytest.approx(
        attribution.margin - float(without[best] - without[second]), abs=1e-5
    )
    assert "attention from the first token" in by_method["attention"].description
    assert "went to [CLS] and [SEP]" in by_method["attention"].description
    assert sum(by_method["attention"].values) == pytest.approx(1)


def test_every_verb_opens_the_run(imported, tmp_path):
    *_, folder = imported
    run = str(folder / "run")
    (tmp_path / "data.csv").write_text("text,label\nthe film is good,positive\nbad,negative\n")
    for arguments in (
        ["predict", run, "the film is good"],
        ["attention", run, "the film is good", "--layer", "1"],
        ["head", run, "the film is good", "--cell", "weights,1,2"],
        ["explain", run, "the film is good"],
        ["evaluate", run, "--data", str(tmp_path / "data.csv")],
        ["tokens", run, "the film is good"],
    ):
        assert main(arguments) == 0, arguments


def test_exported_model_is_read_by_both(imported, tmp_path):
    model, tokenizer, task, folder = imported
    out = tmp_path / "exported"
    assert (
        main(["export", str(folder / "run"), "--to", model.config.model_type, "--out", str(out)])
        == 0
    )
    theirs, info = transformers.AutoModelForSequenceClassification.from_pretrained(
        out, output_loading_info=True
    )
    assert not any(info.values()), info
    their_tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    batch = their_tokenizer(TEXTS[:2], padding=True, return_tensors="pt")
    assert batch.input_ids.tolist() == tokenizer(TEXTS[:2], padding=True).input_ids
    with torch.no_grad():
        probabilities = torch.softmax(theirs.eval()(**batch).logits, -1)
    torch.testing.assert_close(probabilities, task.predict(TEXTS[:2]), atol=1e-5, rtol=0)
    assert theirs.config.id2label == LABELS
    classify = transformers.pipeline("text-classification", str(out))  # as the card says
    assert [answer["label"] for answer in classify(TEXTS[:2])] == [
        task.labels[k] for k in probabilities.argmax(-1)
    ]
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "pipeline_tag: text-classification" in card
    assert 'pipeline("text-classification", "exported")' in card
    again = read_bert(out, read_config(out))
    for name, weight in task.model.state_dict().items():
        assert torch.equal(again.state_dict()[name], weight), name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ({"is_decoder": True}, "is_decoder"),
        ({"problem_type": "multi_label_classification"}, "problem_type"),
        ({"id2label": {"0": "one"}}, "expected two classes or more"),
        ({"id2label": {"1": "a", "2": "b"}}, "numbered from 0"),
        ({"id2label": {"0": "a", "1": "a", "2": "b"}}, "expected two classes or more"),
        ({"id2label": [1, 2]}, "expected the name of each class"),
        ({"id2label": {"0": "a", "1": "b"}}, r"classifier.weight is of shape \(3, 16\)"),
        ({"num_hidden_layers": 3}, "fewer than the 3 layers"),
        ({"num_hidden_layers": 1}, "is not a tensor of a BertForSequenceClassification"),
        ({"hidden_act": "swishy"}, "hidden_act = 'swishy'"),
        ({"layer_norm_eps": "small"}, "layer_norm_eps"),
        ({"type_vocab_size": 3}, "token_type_embeddings.weight is of shape"),
    ],
)
def test_invalid_configs_are_refused(changes, message, tmp_path):
    make_hf_model("bert").save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(UserError, match=message):
        read_bert(tmp_path, read_config(tmp_path))


def test_names_of_the_first_files_are_read(tmp_path):
    model = make_hf_model("bert")
    model.save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    older = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in tensors.items()
    }
    older["bert.embeddings.position_ids"] = torch.arange(20).unsqueeze(0)
    save_file(older, tmp_path / "model.safetensors")
    imported = read_bert(tmp_path, read_config(tmp_path))
    gamma = model.bert.embeddings.LayerNorm.weight
    assert torch.equal(imported.embedding_norm.gamma, gamma)
    del older["classifier.weight"]
    save_file(older, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match="no classifier: expected a BertForSequenceClassification"):
        read_bert(tmp_path, read_config(tmp_path))


def test_other_classifiers_are_not_exported(tmp_path):
    table = {"kind": "transformer", "d_model": 8, "heads": 2}
    with pytest.raises(UserError, match=r'expected model\.kind = "bert"'):
        write_bert(build_classifier(table, 20, 2), "ab", tmp_path, "bert")
    table = {"kind": "bert", "size": "small", "d_model": 8}
    with pytest.raises(UserError, match=r"no model\.token_types: try --to bert"):
        write_bert(build_classifier(table, 20, 2), "ab", tmp_path, "distilbert")
