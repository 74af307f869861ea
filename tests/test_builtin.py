"""Built-in recipes and lectures are found by name, and a file of the same name comes first."""

import os
from pathlib import Path

import pytest

from workings import Problem, UserError
from workings.builtin import builtin_lectures, builtin_recipes, find_problem, find_recipe
from workings.recipes import read_recipe
from workings.recipes.catalog import copy_recipe, list_catalog


def test_a_recipe_is_read_by_name_and_changed():
    recipe = read_recipe("emoji", ["--train.epochs", "3"])
    assert recipe.task == "classify"
    assert recipe.train.epochs == 3


def test_a_lecture_is_loaded_by_name():
    by_name, by_path = Problem.load("L2-self"), Problem.load(builtin_lectures()["L2-self"])
    assert by_name.table == by_path.table


def test_a_file_comes_before_a_name_and_a_folder_does_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "L2-self").write_text('title = "mine"\n[given]\nX = [[1]]', encoding="utf-8")
    assert Problem.load("L2-self").title == "mine"
    (tmp_path / "emoji").mkdir()
    assert find_recipe("emoji") == builtin_recipes()["emoji"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_pipe_comes_before_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("helo")
    assert find_recipe("helo") == Path("helo")


@pytest.mark.parametrize(
    ("find", "name", "message"),
    [
        (find_recipe, "emoij", "emoij: no such file or built-in recipe: did you mean 'emoji'?"),
        (find_recipe, "recipes/emoji.toml", "did you mean 'emoji'?"),
        (find_recipe, "zzz", "`workings recipes` lists the built-in ones"),
        (find_recipe, "a\0b\n", r"a\x00b\n: no such file"),
        (find_recipe, "", "no such file"),
        (find_problem, "l2-self.toml", "did you mean 'L2-self'?"),
        (find_problem, "x" * 5000, "expected one of L0-conv, L0-cross"),
    ],
)
def test_unknown_names_show_the_nearest(find, name, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as error:
        find(name)
    assert message in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_catalog_has_every_recipe():
    catalog = {entry.name: entry for entry in list_catalog()}
    assert set(catalog) == set(builtin_recipes())
    for name, entry in catalog.items():
        recipe = read_recipe(name)
        assert (entry.task, entry.data) == (recipe.task, recipe.data.set)


def test_a_copy_is_the_recipe_and_overwrites_nothing(tmp_path):
    copy = copy_recipe("imdb-lstm", tmp_path)
    assert copy == tmp_path / "imdb-lstm.toml"
    assert read_recipe(copy) == read_recipe("imdb-lstm")
    copy.write_text("mine", encoding="utf-8")
    with pytest.raises(UserError, match="exists already"):
        copy_recipe("imdb-lstm", tmp_path)
    assert copy.read_text(encoding="utf-8") == "mine"
    assert copy_recipe("imdb-lstm", tmp_path / "new.toml").name == "new.toml"
    with pytest.raises(UserError, match="no such built-in recipe: did you mean 'imdb-lstm'"):
        copy_recipe("imdb-lsmt", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no/new\.toml"):
        copy_recipe("imdb-lstm", tmp_path / "no" / "new.toml")
