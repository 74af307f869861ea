"""Valid JSON and TOML with unexpected content: recipes, tokenizers, checkpoints."""

import datetime
import json
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workings.config import build, describe, load_table, to_table, to_toml
from workings.data import BytePairTokenizer, CharacterTokenizer, WordTokenizer, load_tokenizer
from workings.errors import UserError
from workings.models.classifiers import build_classifier
from workings.modules import meta_device
from workings.recipes import CLASSIFIER_KINDS, ClassificationRecipe
from workings.storage import CorruptFileError, read_json, write_json
from workings.training.checkpoints import raise_mismatch_as_corrupt
from workings.training.trainer import TrainingProgress

NUMBERS = (
    st.integers(-3, 70)
    | st.sampled_from([2**16, 2**31, 2**63, 10**30, 10**2000, -(10**2000)])
    | st.floats()
)
PLAIN = NUMBERS | st.booleans() | st.text(max_size=5) | st.sampled_from(["none", "gru", "words"])
VALUES = st.recursive(
    PLAIN, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=3), v, max_size=3)
)
QUICK = {"suppress_health_check": list(HealthCheck), "database": None}


def expect_one_line(error):
    assert len(str(error).splitlines()) == 1
    assert len(str(error)) < 800


@cache
def keys(kind):
    """Return the keys of a recipe for a kind of model; parsing their docstrings is slow."""
    prefix = "model."
    return [f.key for f in describe(ClassificationRecipe) if "." in f.key] + [
        f.key for f in describe(CLASSIFIER_KINDS[kind], prefix)
    ]


@st.composite
def recipes(draw):
    """Draw a recipe with a few keys set to plausible or arbitrary values."""
    kind = draw(st.sampled_from(list(CLASSIFIER_KINDS)))
    table = {
        "model": {"kind": kind, "size": draw(st.sampled_from(list(CLASSIFIER_KINDS[kind].sizes)))}
    }
    plausible = st.integers(1, 9) | st.lists(st.integers(1, 9), min_size=1, max_size=3)
    for key in draw(st.lists(st.sampled_from(keys(kind)), max_size=6)):
        section, name = key.split(".")
        value = draw(VALUES | plausible | plausible | plausible | st.dates() | st.just("max"))
        table.setdefault(section, {})[name] = value
    if draw(st.integers(0, 9)) == 0:
        table[draw(st.text(max_size=5) | st.just("seed"))] = draw(VALUES)
    return table


def build_and_rebuild(table):
    try:
        recipe = build(ClassificationRecipe, table)
        with meta_device():
            build_classifier(recipe.model, 30, 3)
    except UserError as error:
        expect_one_line(error)
    else:
        assert build(ClassificationRecipe, to_table(recipe)) == recipe


def test_arbitrary_recipes_are_refused_in_one_line():
    settings(max_examples=200, **QUICK)(given(recipes())(build_and_rebuild))()


@pytest.mark.slow
def test_arbitrary_recipes_are_refused_in_one_line_many_times():
    settings(max_examples=20_000, **QUICK)(given(recipes())(build_and_rebuild))()


@given(recipes())
@settings(max_examples=50, **QUICK)
def test_accepted_recipes_read_back_equal(tmp_path_factory, table):
    try:
        recipe = build(ClassificationRecipe, table)
    except UserError:
        return
    path = tmp_path_factory.mktemp("recipe") / "a.toml"
    path.write_text(to_toml(to_table(recipe)), encoding="utf-8")
    assert build(ClassificationRecipe, load_table(path)) == recipe


TOKENIZERS = [
    k.train(["ab cd ab"], vocab_size=300).to_dict()
    for k in (WordTokenizer, CharacterTokenizer, BytePairTokenizer)
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=3), v, max_size=3),
)


@st.composite
def tokenizer_tables(draw):
    table = json.loads(json.dumps(draw(st.sampled_from(TOKENIZERS))))
    for _ in range(draw(st.integers(1, 2))):
        key = draw(st.sampled_from(list(table)))
        value = table[key]
        if isinstance(value, list) and value and draw(st.booleans()):
            value[draw(st.integers(0, len(value) - 1))] = draw(JSON | st.text(max_size=2))
        else:
            table[key] = draw(JSON)
    return table


@given(tokenizer_tables())
@settings(max_examples=200, **QUICK)
def test_arbitrary_tokenizer_tables(tmp_path_factory, table):
    path = tmp_path_factory.getbasetemp() / "tokenizer.json"
    path.write_bytes(json.dumps(table).encode())
    try:
        tokenizer = load_tokenizer(path)
    except UserError as error:
        expect_one_line(error)
    else:
        tokenizer.decode(tokenizer.encode("ab cd 🙂"))


@given(st.dictionaries(st.sampled_from([*vars(TrainingProgress()), "x"]), JSON, max_size=4) | JSON)
@settings(max_examples=300, **QUICK)
def test_arbitrary_progress_is_refused_as_corrupt(table):
    try:
        with raise_mismatch_as_corrupt():
            progress = build(TrainingProgress, table)
            assert progress.step >= 0
    except CorruptFileError as error:
        expect_one_line(error)


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4))
@settings(max_examples=200, **QUICK)
def test_written_json_reads_back_equal(tmp_path_factory, table):
    path = Path(tmp_path_factory.getbasetemp()) / "a.json"
    data = {k: v for k, v in table.items() if k not in ("format", "sum")}
    try:
        write_json(path, data)
    except UnicodeEncodeError:
        return
    assert repr(read_json(path)) == repr(data)  # compared as text, since NaN != NaN


def test_a_date_is_not_a_number():
    with pytest.raises(UserError, match="it must be a whole number"):
        build(ClassificationRecipe, {"train": {"epochs": datetime.date(2020, 1, 1)}})
