"""Plug-ins: a kind of model, a task, a tokenizer and a metric of another package, in every verb."""

import json
import re
import sys
from pathlib import Path

import pytest

from workings import registry
from workings.cli import main
from workings.errors import UserError
from workings.recipes import build_recipe, read_recipe
from workings.web.inspector import Inspector
from workings.web.requests import InspectRequest
from workings.web.runs import RunRegistry

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
TASK = '''
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from workings.data.tokenizers.words import WordTokenizer
from workings.recipes import BaseRecipe, ClassificationRecipe, NgramConfig
from workings.registry import register_metric, register_task, register_tokenizer
from workings.tasks import Classification


@dataclass(frozen=True, kw_only=True)
class VowelConfig(NgramConfig):
    """N-grams with a name of their own."""

    kind: ClassVar[str] = "vowels"


@dataclass(frozen=True, kw_only=True)
class VowelRecipe(ClassificationRecipe):
    """A recipe for texts whose vowels matter."""

    task: Literal["vowels"] = "vowels"
    """the kind of recipe"""
    model: NgramConfig = field(default_factory=NgramConfig)
    """settings of the model"""


class Vowels(Classification):
    noun = "classifier of vowels"


class VowelTokenizer(WordTokenizer):
    kind = "vowel-words"


register_task(VowelRecipe, Vowels)
register_tokenizer(VowelTokenizer)
register_metric("vowel_error", lambda task: 1.0, higher_is_better=False)
'''

pytestmark = pytest.mark.usefixtures("clean_registry")


def read_named_block(name):
    """Return the block of docs/extending.md with this file name."""
    return re.search(rf"```\w+ {re.escape(name)}\n(.*?)```", PAGE, re.DOTALL)[1]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with the plug-in and the recipe of docs/extending.md, and some data."""
    monkeypatch.chdir(tmp_path)
    Path("averages.py").write_text(read_named_block("averages.py"))
    rows = [f"{word} {k},{word[0]}" for word in ("apple", "pear") for k in range(20)]
    Path("data.csv").write_text("\n".join(["text,label", *rows]))
    recipe = read_named_block("average.toml")
    Path("average.toml").write_text(f'data.set = "data.csv"\ntrain.epochs = 1\n{recipe}')
    return tmp_path


@pytest.fixture
def run(folder):
    assert main(["train", "average.toml", "--plugin", "averages", "--out", "run", "--quiet"]) == 0
    return folder / "run"


def test_model_of_a_plugin_opens_in_every_verb(run, capsys):
    assert read_recipe(run / "config.toml").plugins == ("averages",)
    for verb in (
        ["predict", "run", "apple"],
        ["explain", "run", "apple"],
        ["evaluate", "run"],
        ["summary", "average.toml"],
        ["tokens", "run", "apple"],
        ["resume", "run", "--quiet"],
        ["train", "--repeat", "run", "--out", "again", "--quiet"],
    ):
        assert main([*verb, "--plugin", "averages"]) == 0, capsys.readouterr().err
    view = Inspector(RunRegistry([run])).inspect(InspectRequest(run="run", text="apple"))
    assert {bar.name for bar in view.bars} == {"a", "p"}
    assert main(["export", "run", "--to", "bert", "--out", "x", "--plugin", "averages"]) == 2
    assert 'expected model.kind = "bert"' in capsys.readouterr().err


def test_help_and_suggestions_know_the_plugin(folder, capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help", "--plugin", "averages"])
    help_text = capsys.readouterr().out
    assert "with task = classify and model.kind = average:" in help_text
    assert re.search(r"model.hidden_size +width of the layer \[64\]", help_text)
    plugin = ["--plugin", "averages"]
    assert main(["train", "average.toml", *plugin, "--model.kind", "averagee"]) == 2
    assert "model.kind = 'averagee': did you mean 'average'?" in capsys.readouterr().err
    assert main(["train", "average.toml", *plugin, "--model.hidden_size", "0"]) == 2
    assert "model.hidden_size = 0: expected a whole number from 1 to 65,536" in (
        capsys.readouterr().err
    )


def test_a_run_imports_nothing_by_itself(run, capsys, monkeypatch):
    del sys.modules["averages"]  # as in a new process
    monkeypatch.syspath_prepend(run.parent)
    for verb in (["predict", "run", "a"], ["serve", "run"], ["train", "--repeat", "run"]):
        assert main(verb) == 2
        assert capsys.readouterr().err == (
            "workings: the plug-in averages is needed: install its package, or run its code with "
            "--plugin averages\n"
        )
    assert "averages" not in sys.modules


def test_installed_package_needs_no_option(folder, monkeypatch, capsys):
    install(folder / "site", "averages.py", 'averages = "averages"')
    Path("averages.py").unlink()
    monkeypatch.syspath_prepend(folder / "site")
    registry.import_installed_plugins.cache_clear()
    assert main(["train", "average.toml", "--out", "run", "--quiet"]) == 0
    assert main(["predict", "run", "apple"]) == 0
    assert '"label"' in capsys.readouterr().out


def install(site, module, entry_point):
    """Write what pip would: the module, and the entry point that pyproject.toml declares."""
    assert entry_point in read_named_block("pyproject.toml")
    info = site / "workings_averages-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: workings-averages\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[workings.plugins]\n{entry_point.replace(chr(34), '')}"
    )
    (site / module).write_text(Path(module).read_text())


def test_broken_plugins_are_one_line(folder, monkeypatch, capsys):
    Path("broken.py").write_text("1 / 0")
    assert main(["summary", "average.toml", "--plugin", "broken"]) == 2
    assert "--plugin broken: ZeroDivisionError: division by zero" in capsys.readouterr().err
    assert main(["summary", "average.toml", "--plugin", "./averages.py"]) == 2
    assert "--plugin ./averages.py: expected the name of a module" in capsys.readouterr().err
    monkeypatch.setenv("WORKINGS_PLUGINS", "broken, averages")
    monkeypatch.syspath_prepend(folder)
    registry.import_installed_plugins.cache_clear()
    with pytest.warns(UserWarning, match="the plug-in broken was not loaded: ZeroDivisionError"):
        assert build_recipe({"model": {"kind": "average"}}).model.kind == "average"


def test_names_are_registered_once(folder):
    registry.import_plugins(["averages"])
    averages = sys.modules["averages"]
    with pytest.raises(UserError, match="classify model 'average' exists already"):
        registry.register_model("classify", averages.AverageConfig, averages.Average)
    with pytest.raises(UserError, match="no task 'classfy': did you mean 'classify'"):
        registry.register_model("classfy", averages.AverageConfig, averages.Average)


def test_task_tokenizer_and_metric_of_a_plugin(folder, capsys):
    Path("vowels.py").write_text(TASK)
    Path("vowels.toml").write_text(
        'task = "vowels"\ndata.set = "data.csv"\ntrain.epochs = 1\ntokenizer.kind = "vowel-words"'
    )
    options = ["--plugin", "vowels"]
    changes = ["--train.metric", "vowel_error"]
    assert main(["train", "vowels.toml", *options, *changes, "--out", "run", "--quiet"]) == 0
    assert json.loads(Path("run/result.json").read_text())["validation_vowel_error"] == 1
    assert main(["predict", "run", "apple", *options]) == 0
    assert '"label": "a"' in capsys.readouterr().out
    assert main(["evaluate", "run", "--beams", "2", *options]) == 2
    assert "beam search is for translators" in capsys.readouterr().err
    assert main(["train", "vowels.toml", *options, "--tokenizer.kind", "vowel-wrds"]) == 2
    assert "tokenizer.kind = 'vowel-wrds': did you mean 'vowel-words'?" in capsys.readouterr().err
