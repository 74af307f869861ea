"""What all tasks share: loading, copying, the check of their data, and what each cannot do."""

from pathlib import Path

import numpy as np
import pytest
import torch
from small_tasks import (
    captioning_task,
    classification_task,
    custom_task,
    language_task,
    translation_task,
)

from workings.builtin import builtin_recipes
from workings.data import CharacterTokenizer
from workings.decode import Sampling
from workings.errors import UserError
from workings.models.seq2seq import PAD, START
from workings.recipes import read_recipe
from workings.tasks.attention import PassOptions
from workings.tasks.base import (
    SPLIT_NAMES,
    Generation,
    Response,
    is_out_of_memory,
    oom_hint,
    sample_texts,
    shift_right,
)
from workings.tasks.captioning import Captioning
from workings.tasks.classification import Classification
from workings.tasks.language_modeling import LanguageModeling
from workings.tasks.translation import Translation, collate_sources
from workings.training.runs import TASKS, load

RUNS = {
    "texts_run": Classification,
    "corpus_run": LanguageModeling,
    "pairs_run": Translation,
    "squares_run": Captioning,
}


@pytest.fixture(params=RUNS)
def run(request):
    return request.getfixturevalue(request.param), RUNS[request.param]


def test_saved_files_are_those_that_are_listed_and_match(run, tmp_path):
    folder, kind = run
    task = load(folder)
    assert type(task) is kind
    task.save(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == set(task.files)
    assert task.matches_folder(tmp_path)
    assert kind.load_preprocessing(tmp_path, task.recipe) == task.preprocessing


def test_a_copy_with_other_weights_has_its_own_model(run):
    task = load(run[0])
    zeros = {name: torch.zeros_like(t) for name, t in task.model.state_dict().items()}
    before = {name: t.clone() for name, t in task.model.state_dict().items()}
    other = task.with_weights(zeros)
    assert type(other) is type(task)
    assert other.preprocessing == task.preprocessing
    assert not any(t.any() for t in other.model.state_dict().values())
    assert all(torch.equal(t, before[name]) for name, t in task.model.state_dict().items())


def test_data_that_have_changed_are_refused(run):
    task = load(run[0])
    task.check_trained_on(task.data_info["sha256"])
    with pytest.raises(UserError, match="is not what this run was trained on"):
        task.check_trained_on("0" * 64)
    task.data_info = {}  # an old run does not know its data
    task.check_trained_on("0" * 64)


def test_sizes_of_the_data_are_described(run):
    data_info = load(run[0]).data_info
    assert all(data_info[split] > 0 for split in SPLIT_NAMES if split in data_info)
    assert data_info["train"] > data_info["validation"] > 0


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")]
)
def test_out_of_memory_becomes_a_hint(error):
    assert is_out_of_memory(error)
    with pytest.raises(UserError, match=r"^out of memory while testing: buy more$"):  # noqa: SIM117
        with oom_hint("while testing", "buy more"):
            raise error


def test_other_errors_are_unchanged():
    with pytest.raises(RuntimeError, match="shapes"), oom_hint("while testing"):
        raise RuntimeError("shapes do not match")


# -- what a task can and cannot do ---------------------------------------------------------------

WORDS, TEXT = ["the", "cat", "sat"], "the cat sat"
IMAGE = np.zeros((16, 16, 3), np.uint8)
SMALL_TASKS = {
    "classify": lambda: classification_task(WORDS),
    "language": lambda: language_task(CharacterTokenizer.train([TEXT])),
    "translate": lambda: translation_task(WORDS),
    "caption": captioning_task,
}
GENERATION = Generation("cat", (5,), 0.0, 0.0)


@pytest.fixture(params=SMALL_TASKS)
def small(request):
    return SMALL_TASKS[request.param]()


def test_probabilities_or_a_text_are_the_response(small):
    response = small.respond(IMAGE if small.image_size else TEXT)
    assert isinstance(response, Response)
    if small.is_seq2seq:
        assert response.probabilities is None
        assert isinstance(response.generation, Generation)
        assert "".join(small.split_generation(response.generation)) == response.generation.text
    else:
        assert response.generation is None
        assert float(response.probabilities.sum()) == pytest.approx(1)
        names = [response.name_of(k) for k in range(len(response.probabilities))]
        assert len(set(names)) == len(names)
    assert len(response.tokens) == (
        0 if small.image_size else len(small.encode_with_spans(TEXT)[1])
    )


def test_logits_of_a_pass_that_has_run_are_the_response():
    for task in (SMALL_TASKS["classify"](), SMALL_TASKS["language"]()):
        _, logits = task.plan_attention(TEXT, None, PassOptions()).trace([])
        expected = task.respond(TEXT).probabilities
        torch.testing.assert_close(task.respond(TEXT, logits).probabilities, expected)


def test_inputs_of_another_kind_are_refused(small):
    with pytest.raises(UserError, match="captioner"):
        small.respond(TEXT if small.image_size else IMAGE)


CANNOT = {
    "respond": (lambda task: task.respond(TEXT), ()),
    "attention": (lambda task: task.plan_attention(TEXT, None, PassOptions()), ()),
    "text": (lambda task: task.encode_with_spans(TEXT), ("caption",)),
    "stream": (lambda task: task.stream(TEXT), ("classify", "translate", "caption")),
    "pieces": (lambda task: task.split_generation(GENERATION), ("classify", "language")),
    "search": (lambda task: task.override_search(beams=2), ("classify", "language")),
    "images": (
        lambda task: task.evaluate_on_images("captions.txt", Path("images")),
        ("classify", "language", "translate"),
    ),
    "export": (lambda task: task.export(None), ()),
}


@pytest.mark.parametrize("name", CANNOT)
def test_what_a_task_cannot_do_is_one_line_that_names_what_can(name):
    use, tasks = CANNOT[name]
    for task in (custom_task(), *(SMALL_TASKS[kind]() for kind in tasks)):
        with pytest.raises(UserError) as error:
            use(task)
        assert "\n" not in str(error.value)
        assert any(
            noun in str(error.value)
            for noun in ("classifier", "language model", "translator", "captioner")
        )


def test_tasks_without_held_out_data_have_no_predictions(small):
    assert custom_task().predict_held_out() is None
    assert not custom_task().caption_held_out(3)
    if not small.image_size:
        assert small.predict_held_out() is None
        assert not small.caption_held_out(3)


def test_held_out_predictions_are_those_of_the_test_data(texts_run):
    task = load(texts_run)
    assert task.predict_held_out() is None  # the data are not loaded with the run
    task.evaluate_on()
    held_out = task.predict_held_out()
    assert held_out.split == "test"
    texts = [example.text for example in task.examples["test"]]
    assert held_out.texts == texts
    torch.testing.assert_close(torch.softmax(held_out.logits, -1), task.predict(texts))
    assert [task.labels[k] for k in held_out.targets] == [e.label for e in task.examples["test"]]


def test_held_out_captions_are_the_models(squares_run):
    task = load(squares_run)
    task.evaluate_on()
    samples = task.caption_held_out(2)
    assert [sample.name for sample in samples] == [p.name for p in task.pictures["test"][:2]]
    assert samples[0].caption.text == next(task.caption([samples[0].image]))[0].text
    assert samples[0].split == "test"


def test_another_search_is_part_of_the_recipe():
    task = translation_task(WORDS)
    task.override_search(beams=7)
    assert task.recipe.search.beams == 7
    with pytest.raises(UserError, match="beams"):
        task.override_search(beams=0)


def test_layer_table_of_a_recipe_is_that_of_its_task(run):
    task = load(run[0])
    table = task.summarize_model()
    assert table.parameters == sum(p.numel() for p in task.model.parameters())
    sizes = len(task.preprocessing[0].source if run[1] is Translation else task.tokenizer)
    recipe_table = run[1].summarize_recipe(task.recipe, sizes, max(len(task.labels), 2))
    assert [row.name for row in recipe_table.rows] == [row.name for row in table.rows]
    assert recipe_table.parameters == pytest.approx(table.parameters, rel=0.2)


def test_every_built_in_dataset_is_listed_by_its_task():
    for path in builtin_recipes().values():
        recipe = read_recipe(path)
        names = TASKS[recipe.task].list_datasets()
        assert recipe.data.set in names or Path(recipe.data.set).suffix or "/" in recipe.data.set


# -- sequence to sequence ------------------------------------------------------------------------


def test_decoder_inputs_are_the_targets_shifted_right():
    inputs, targets = shift_right([[5, 6], [7]], 3, torch.device("cpu"))
    assert inputs.tolist() == [[START, 5, 6], [START, 7, PAD]]
    assert targets.tolist() == [[5, 6, 3], [7, 3, PAD]]


@pytest.fixture
def translator(pairs_run):
    return load(pairs_run)


def test_special_tokens_are_never_sampled(translator):
    hot = Sampling(temperature=1e6, seed=1)
    texts = ["one two ten cat dog"] * 20
    found = [t for ranked in translator.translate(texts, sampling=hot) for t in ranked]
    assert not {PAD, START} & {token for t in found for token in t.tokens}


def test_sampled_texts_have_their_own_length_limits(translator):
    encoded = [translator.tokenizers.encode_source(text) for text in ("one two", "ten cat")]
    source = collate_sources(encoded, translator.model)
    hot = Sampling(temperature=1e6, seed=1)
    with torch.no_grad():
        (first,), (second,) = sample_texts(translator.model, source, -1, hot, [2, 5])
    assert (len(first.tokens), len(second.tokens)) == (2, 5)
    assert first.log_probability == first.score < 0
