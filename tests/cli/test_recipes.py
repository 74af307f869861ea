"""The commands take names of recipes and lectures, in any folder."""

import re

import pytest

from workings.builtin import builtin_lectures, builtin_recipes
from workings.cli import main


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_recipes_lists_task_data_minutes_and_result(capsys):
    assert main(["recipes"]) == 0
    output = capsys.readouterr().out
    assert {line.split()[0] for line in output.splitlines()[2:]} == set(builtin_recipes())
    assert re.search(r"^imdb-lstm +classify +imdb +11\.8 +87\.48 % accuracy$", output, re.M)


def test_a_copy_can_be_trained_by_the_printed_command(capsys, empty_folder):
    assert main(["recipes", "copy", "helo"]) == 0
    assert capsys.readouterr().out == "helo.toml: edit it, then: workings train helo.toml\n"
    assert main(["summary", "helo.toml"]) == 0
    assert main(["recipes", "copy", "helo", "."]) == 2
    assert "helo.toml: exists already" in capsys.readouterr().err


def test_training_by_name_writes_runs_name(empty_folder):
    assert main(["train", "helo", "--train.epochs", "1", "--quiet"]) == 0
    assert (empty_folder / "runs" / "helo" / "report.html").is_file()


def test_check_prints_the_names_as_given(capsys):
    assert main(["check", "L2-self", "L2-cross"]) == 1
    names = re.findall(r"^\S.*", capsys.readouterr().out, re.M)
    assert names == ["L2-self", "L2-cross"]


def test_check_of_all_lectures(capsys, empty_folder):
    (empty_folder / "L2-self").write_text("not a problem", encoding="utf-8")
    assert main(["check", "--lectures"]) == 1
    names = re.findall(r"^\S.*", capsys.readouterr().out, re.M)
    assert names == list(builtin_lectures())


@pytest.mark.parametrize("verb", ["train", "summary", "compare", "gradients"])
def test_unknown_recipe_shows_the_nearest(verb, capsys):
    assert main([verb, "heloo"]) == 2
    assert "did you mean 'helo'?" in capsys.readouterr().err


@pytest.mark.parametrize(("verb", "name"), [("train", "helo"), ("solve", "L2-self")])
def test_help_lists_the_names(verb, name, capsys):
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    assert f" {name}" in capsys.readouterr().out
