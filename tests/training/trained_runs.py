"""Runs that several test files share, trained once per session; a test copies one to change it."""

import pytest
import toys

from workings.training.runs import train_recipe


@pytest.fixture(scope="session")
def texts_run(tmp_path_factory):
    """A classifier of fruit and metal."""
    folder = tmp_path_factory.mktemp("texts")
    recipe = toys.texts_recipe(toys.write_texts(folder / "texts.jsonl"))
    train_recipe(recipe, folder / "run", mode="quiet")
    return folder / "run"


@pytest.fixture(scope="session")
def corpus_run(tmp_path_factory):
    """A language model that completes words of its text."""
    folder = tmp_path_factory.mktemp("corpus")
    text = toys.write_corpus(folder / "text.txt")
    longer = ("--train.epochs", "8", "--data.eval_every", "30", "--seed", "3")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        train_recipe(toys.corpus_recipe(text, *longer), folder / "run", mode="quiet")
    return folder / "run"


@pytest.fixture(scope="session")
def pairs(tmp_path_factory):
    """Sentence pairs in reversed word order."""
    return toys.write_pairs(tmp_path_factory.mktemp("pairs") / "pairs.tsv")


@pytest.fixture(scope="session")
def few_pairs(tmp_path_factory):
    """The same, but too few to learn from."""
    return toys.write_pairs(tmp_path_factory.mktemp("pairs") / "pairs.tsv", 200)


@pytest.fixture(scope="session")
def pairs_run(pairs, tmp_path_factory):
    """A translator that has learned to reverse the words."""
    folder = tmp_path_factory.mktemp("runs") / "reversed"
    train_recipe(toys.pairs_recipe(pairs), folder, mode="quiet")
    return folder


@pytest.fixture(scope="session")
def squares(tmp_path_factory):
    """Captioned images of squares."""
    pytest.importorskip("PIL")
    return toys.write_squares(tmp_path_factory.mktemp("pictures"))


@pytest.fixture(scope="session")
def squares_run(squares, tmp_path_factory):
    """A captioner that has learned colors and sides."""
    folder = tmp_path_factory.mktemp("runs") / "squares"
    train_recipe(toys.squares_recipe(squares), folder, mode="quiet")
    return folder
