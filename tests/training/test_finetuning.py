"""Fine-tuning: what is carried over, that it helps, and that a run needs its parent no more."""

import json
import random
import shutil

import pytest
import torch
import toys

import workings
from workings.cli import main
from workings.errors import UserError
from workings.models import LanguageModelClassifier
from workings.recipes import ClassificationRecipe, build_recipe
from workings.storage import read_json, read_tensors, write_tensors
from workings.training.runs import load, resume, train_recipe

FRUIT = "apple pear plum cherry grape fig melon lemon peach date kiwi lime"
METAL = "iron zinc tin lead gold copper silver nickel steel brass bronze chrome"
TOPICS = {"fruit": FRUIT.split(), "metal": METAL.split()}
NUM_LABELED_WORDS = 3  # of each topic, that are in a labeled text


def make_texts(words, count, seed):
    rng = random.Random(seed)  # noqa: S311
    return [" ".join(rng.choices(words, k=6)) for _ in range(count)]


def write_labeled(path, select):
    rows = [
        {"text": text, "label": topic}
        for topic, words in TOPICS.items()
        for text in make_texts(select(words), 40, f"labeled {topic}")
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.fixture(scope="module")
def topics(tmp_path_factory):
    """A folder with unlabeled text of two topics, labeled texts of few words, and of the others."""
    folder = tmp_path_factory.mktemp("topics")
    lines = [line for words in TOPICS.values() for line in make_texts(words, 250, words[0])]
    random.Random(0).shuffle(lines)  # noqa: S311
    (folder / "text.txt").write_text("\n".join(lines) + "\n")
    write_labeled(folder / "labeled.jsonl", lambda words: words[:NUM_LABELED_WORDS])
    write_labeled(folder / "others.jsonl", lambda words: words[NUM_LABELED_WORDS:])
    return folder


BODIES = {
    "recurrent": {"kind": "recurrent", "cell": "gru", "d_model": 16, "hidden_size": 24},
    "transformer": {"kind": "transformer", "d_model": 16, "layers": 1, "heads": 2},
}


@pytest.fixture(scope="module")
def language_runs(topics):
    """Language models of the unlabeled text, by kind."""
    for name, model in BODIES.items():
        data = {"set": str(topics / "text.txt"), "context_length": 12, "eval_every": 80}
        table = {
            "task": "language",
            "data": {**data, "sample": 0},
            "tokenizer": {"kind": "words"},
            "model": model,
            "train": {"epochs": 1, "batch_size": 32, "learning_rate": 0.02},
        }
        train_recipe(build_recipe(table), topics / name, mode="quiet")
    return {name: topics / name for name in BODIES}


@pytest.fixture(scope="module", params=BODIES)
def language_run(language_runs, request):
    return language_runs[request.param]


def classify_recipe(topics, *overrides, **keys):
    table = {
        "data": {"set": str(topics / "labeled.jsonl"), "validation": 0.2},
        "model": {"kind": "language-model", "pooling": "concat"},
        "train": {"epochs": 3, "batch_size": 8, "learning_rate": 0.01},
    }
    return build_recipe({**table, **keys}, overrides)


@pytest.fixture(scope="module")
def classifier_run(topics, language_run, tmp_path_factory):
    """A classifier that started from the language model."""
    folder = tmp_path_factory.mktemp("classifier") / "run"
    recipe = classify_recipe(topics, "--train.save_every", "3", start_from=str(language_run))
    train_recipe(recipe, folder, mode="quiet")
    return folder


def assert_equal(a, b):
    assert a.keys() == b.keys()
    for name, tensor in a.items():
        assert torch.equal(tensor, b[name]), name


# -- a language model becomes a classifier ---------------------------------------------------------


def test_pretraining_knows_words_that_no_labeled_text_has(topics, language_run, classifier_run):
    others = str(topics / "others.jsonl")
    assert load(classifier_run).evaluate_on(others)["test_accuracy"] >= 0.9
    untrained = load(language_run)  # the same tokenizer and sizes, but new weights
    torch.manual_seed(1)
    untrained.model = untrained.build_model(untrained.recipe, *untrained.preprocessing)
    scratch = workings.train(classify_recipe(topics), start_from=untrained)
    assert scratch.evaluate_on(others)["test_accuracy"] <= 0.7


def test_the_body_is_carried_over_and_the_head_is_new(language_run, classifier_run):
    language, initial = (
        read_tensors(language_run / "model.safetensors"),
        read_tensors(classifier_run / "initial.safetensors"),
    )
    body = {name: t for name, t in language.items() if not name.startswith("head.")}
    carried = {n.removeprefix("body."): t for n, t in initial.items() if n.startswith("body.")}
    assert_equal(carried, body)
    for file in ("environment.json", "result.json"):
        record = json.loads((classifier_run / file).read_text())["initialized_from"]
        assert record["copied"] == len(body)
        assert record["new"] == ["head.weight", "head.bias"]
        assert record["name"] == str(language_run)
    header = (language_run / "model.safetensors").read_bytes()[:2000]
    assert f"{record['weights_sha256']} {record['run_id']}".encode() in header
    assert f"from the weights of {language_run}" in (classifier_run / "report.html").read_text()


def test_the_tokenizer_is_kept(language_run, classifier_run):
    assert load(classifier_run).tokenizer == load(language_run).tokenizer


def test_padding_changes_nothing(classifier_run):
    task = load(classifier_run)
    texts = ["apple", "iron zinc tin lead gold", "plum pear"]
    together = task.predict(texts)
    for text, row in zip(texts, together, strict=True):
        torch.testing.assert_close(task.predict([text])[0], row)


def test_concatenated_pooling_is_last_max_and_mean():
    torch.manual_seed(0)
    model = LanguageModelClassifier(9, 2, body=BODIES["recurrent"], pooling="concat")
    ids = torch.randint(0, 9, (1, 7))
    states, _ = model.body.forward_features(ids[:, :5], None)
    features = torch.cat((states[0, -1], states[0].max(0).values, states[0].mean(0)))
    torch.testing.assert_close(model(ids, torch.tensor([5]))[0], model.head(features))


def test_the_classifier_can_be_looked_into(classifier_run, language_run, capsys):
    assert main(["explain", str(classifier_run), "apple pear iron"]) == 0
    is_transformer = language_run.name == "transformer"
    assert (main(["attention", str(classifier_run), "apple pear iron"]) == 0) is is_transformer
    if is_transformer:
        weights = workings.interpret.attention.collect(load(classifier_run), "apple pear iron")
        assert (weights.stacks[0].weights[0][0, 0, 1:] == 0).all()  # no token sees a later one
    assert main(["export", str(classifier_run), "--to", "bert", "--out", "x"]) == 2
    assert 'expected model.kind = "bert"' in capsys.readouterr().err


# -- the new run does not need its parent ----------------------------------------------------------


class StopTrainingError(Exception):
    pass


def train_until(recipe, folder, epoch):
    """Train, and fail as if killed at the end of an epoch, before its checkpoint."""

    def stop(record):
        if record["epoch"] == epoch:
            raise StopTrainingError

    def prepare(task):
        task.callbacks = [stop]

    with pytest.raises(StopTrainingError):
        train_recipe(recipe, folder, mode="quiet", prepare=prepare)


@pytest.mark.parametrize(("epoch", "save_every"), [(1, 1000), (2, 3)])
def test_a_stopped_run_resumes_without_its_parent(
    epoch, save_every, topics, language_runs, tmp_path
):
    parent = shutil.copytree(language_runs["transformer"], tmp_path / "parent")
    settings = {"epochs": 2, "batch_size": 8, "save_every": save_every, "layer_decay": 0.7}
    settings |= {"freeze": ["body.blocks"], "optimizer": "muon", "average": "ema"}
    recipe = classify_recipe(
        topics, "--model.dropout", "0.2", start_from=str(parent), train=settings
    )
    train_recipe(recipe, tmp_path / "whole", mode="quiet")
    train_until(recipe, tmp_path / "stopped", epoch)
    assert (tmp_path / "stopped" / "checkpoints").exists() is (save_every == 3)
    shutil.rmtree(parent)
    resume(tmp_path / "stopped", mode="quiet")
    assert toys.weights(tmp_path / "stopped") == toys.weights(tmp_path / "whole")
    logs = [toys.log_without_times(tmp_path / run) for run in ("stopped", "whole")]
    assert logs[0] == logs[1]


def test_a_run_is_repeated_and_extended_without_its_parent(topics, language_runs, tmp_path):
    parent = shutil.copytree(language_runs["transformer"], tmp_path / "parent")
    settings = {"epochs": 1, "batch_size": 16}
    recipe = classify_recipe(topics, start_from=str(parent), train=settings)
    train_recipe(recipe, tmp_path / "run", mode="quiet")
    shutil.rmtree(parent)
    arguments = ["train", "--repeat", f"{tmp_path}/run", "--quiet", "--out"]
    assert main([*arguments, f"{tmp_path}/again"]) == 0
    assert toys.weights(tmp_path / "again") == toys.weights(tmp_path / "run")
    resume(tmp_path / "run", epochs=2, out=tmp_path / "longer", mode="quiet")
    resume(tmp_path / "longer", mode="quiet")
    # With other data, the head may be another: the parent is needed again.
    other = ["--data.validation", "0.3"]
    assert main([*arguments, f"{tmp_path}/other", *other]) == 2


def test_initial_weights_of_another_run_are_refused(classifier_run, tmp_path):
    run = shutil.copytree(classifier_run, tmp_path / "run")
    tensors = read_tensors(run / "initial.safetensors")
    write_tensors(run / "initial.safetensors", tensors, run_id="another")
    with pytest.raises(UserError, match="it belongs to another"):
        resume(run, mode="quiet")


# -- the same task ---------------------------------------------------------------------------------


def test_a_language_model_goes_on_with_another_text(corpus_run, tmp_path, capsys):
    text = tmp_path / "other.txt"
    text.write_text("mellow world, hello yellow fellow\n" * 60)
    arguments = ["train", "--from", str(corpus_run), "--data.set", str(text), "--out"]
    fewer = ["--train.epochs", "1", "--data.eval_every", "5"]
    assert main([*arguments, f"{tmp_path}/run", *fewer]) == 0
    parent, task = load(corpus_run), load(tmp_path / "run")
    count = len(read_tensors(corpus_run / "model.safetensors"))
    assert f"{count} of {count} tensors from {corpus_run}" in capsys.readouterr().err
    assert task.tokenizer == parent.tokenizer
    assert task.recipe.data.context_length == parent.recipe.data.context_length
    initial = read_tensors(tmp_path / "run" / "initial.safetensors")
    assert_equal(initial, read_tensors(corpus_run / "model.safetensors"))
    before = parent.evaluate_on(str(text))["test_loss"]
    assert task.evaluate_on(str(text))["test_loss"] < before


def test_a_classifier_gets_a_new_head_for_other_labels(texts_run, tmp_path):
    data = toys.write_texts(tmp_path / "texts.jsonl", words=3)
    recipe = toys.texts_recipe(data, "--train.epochs", "1")
    same = workings.train(recipe, start_from=texts_run, out=tmp_path / "same")
    assert same.labels == ("fruit", "metal")
    data.write_text(data.read_text().replace('"metal"', '"ore"'))
    workings.train(recipe, start_from=texts_run, out=tmp_path / "other")
    new = [
        read_json(tmp_path / run / "environment.json")["initialized_from"]["new"]
        for run in ("same", "other")
    ]
    assert new == [[], ["head.weight", "head.bias"]]


def list_tokens(tokenizer):
    return [tokenizer.id_to_token(k) for k in range(len(tokenizer))]


def test_a_translator_gets_another_vocabulary(pairs_run, tmp_path):
    pairs = toys.write_pairs(tmp_path / "pairs.tsv", 200)
    german = pairs.read_text().replace("en\tfr", "en\tde")
    for word, translation in {"un": "ein", "deux": "zwei", "chien": "hund"}.items():
        german = german.replace(word, translation)
    pairs.write_text(german)
    settings = ("--data.target", "de", "--train.epochs", "1", "--tokenizer.reuse", "false")
    recipe = toys.pairs_recipe(pairs, *settings)
    task = workings.train(recipe, start_from=pairs_run, out=tmp_path / "run")
    record = read_json(tmp_path / "run" / "environment.json")["initialized_from"]
    own, other = task.tokenizers.target, load(pairs_run).tokenizers.target
    known = set(list_tokens(own)) & set(list_tokens(other))
    assert {"chat", "dix", "six", "</s>"} <= known
    assert record["new"] == []
    assert record["tokens"]["target_embedding.weight"] == [len(known), len(own)]
    initial = read_tensors(tmp_path / "run" / "initial.safetensors")["target_embedding.weight"]
    before = read_tensors(pairs_run / "model.safetensors")["target_embedding.weight"]
    for token in known:
        rows = (list_tokens(own).index(token), list_tokens(other).index(token))
        assert torch.equal(initial[rows[0]], before[rows[1]]), token
    resume(tmp_path / "run", mode="quiet")


def test_a_captioner_learns_other_captions(squares, squares_run, tmp_path):
    recipe = toys.squares_recipe(squares, "--train.epochs", "1", "--train.freeze", '["grid"]')
    task = workings.train(recipe, start_from=squares_run, out=tmp_path / "run")
    parent = read_tensors(squares_run / "model.safetensors")
    grid = {n: t for n, t in task.model.state_dict().items() if n.startswith("grid.")}
    assert_equal(grid, {name: parent[name] for name in grid})


def test_a_task_in_memory_and_data_in_memory(language_runs):
    language = load(language_runs["recurrent"])
    data = [(text, topic) for topic, words in TOPICS.items() for text in make_texts(words, 20, 1)]
    task = workings.train(ClassificationRecipe(), data, start_from=language, epochs=1)
    assert task.tokenizer == language.tokenizer
    further = workings.train(start_from=language, data="apple pear plum\n" * 50, epochs=1)
    assert further.tokenizer == language.tokenizer


# -- mistakes --------------------------------------------------------------------------------------


def refuse(source, message, *words, recipe=()):
    with pytest.raises(UserError, match=message):
        workings.train(build_recipe(dict(recipe), words), start_from=source)


def test_models_that_do_not_fit_are_refused(texts_run, corpus_run, pairs_run, texts):
    data = ("--data.set", str(texts))
    refuse(pairs_run, "a translator cannot be fine-tuned for the task 'classify'", *data)
    refuse(texts_run, r"model\.hidden_size = 9: .* has 8", *data, "--model.hidden_size", "9")
    refuse(texts_run, r"model\.kind = 'transformer': .* recurrent", "--model.kind", "transformer")
    refuse(corpus_run, "kind 'language-model' starts", *data, "--model.kind", "convolution")
    words = (*data, "--model.kind", "language-model", "--model.body.layers", "2")
    refuse(corpus_run, r"model\.body\.layers = 2: .* has 1", *words)
    refuse("nowhere", "nowhere: no such run")
    with pytest.raises(UserError, match="start_from= is for recipes"):
        workings.train(load(corpus_run).model, "text", start_from=corpus_run)


def test_a_text_that_the_tokenizer_does_not_know_is_refused(corpus_run, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("привет мир\n" * 50, encoding="utf-8")
    message = r"% of its tokens are unknown to the tokenizer of .*: --tokenizer\.reuse false"
    with pytest.raises(UserError, match=message):
        workings.train(start_from=corpus_run, data=text, epochs=1)


@pytest.mark.parametrize(("kind", "tokenizer"), [("ngrams", "words"), ("tf-idf", "characters")])
def test_ngrams_are_refused(texts, tmp_path, kind, tokenizer):
    sections = {"tokenizer": {"kind": tokenizer}, "model": {"kind": kind}}
    ngrams = build_recipe({"data": {"set": str(texts)}, **sections})
    workings.train(ngrams, out=tmp_path / "run", epochs=1)
    with pytest.raises(UserError, match="n-grams are counted, not fine-tuned"):
        workings.train(start_from=tmp_path / "run")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train"], "needs a RECIPE, --task and --data, --from RUN or --repeat RUN"),
        (
            ["train", "--from", "runs/a", "--repeat", "runs/b"],
            "goes with neither RECIPE nor --from",
        ),
        (["train", "--from", "nowhere"], "nowhere: no such run"),
    ],
)
def test_mistakes_on_the_command_line(arguments, message, capsys):
    assert main(arguments) == 2
    assert message in capsys.readouterr().err
