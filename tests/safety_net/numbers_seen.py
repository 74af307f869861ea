"""What users see, as numbers and structure: gathered here, frozen by freeze.py, compared by tests.

Everything goes through the command line, the files that it writes and the page.
"""

import base64
import csv
import io
import json
import math
import os
import re
import shutil
import tomllib
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import typed_names as names

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is loaded

ROOT = Path(__file__).parents[2]
LECTURES = sorted((ROOT / "lectures").glob("*.toml"))
NUMBER = re.compile(r"(?<![\w.])[-−+]?(?:\d[\d,]*\.?\d*(?:[eE][-+]?\d+)?|∞|inf\b)(?![\w])")


# -- the command line ----------------------------------------------------------------------------


@cache
def _main() -> Any:
    """The program, whatever it is called."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, _, function = next(iter(project["scripts"].values())).partition(":")
    return getattr(import_module(module), function)


def command(words: list[str], expect: tuple[int, ...] = (0,), **places: Any) -> str:
    """Run a verb; return what it prints."""
    out, expected_answer = io.StringIO(), io.StringIO()
    argv = [_filled(word, {k: str(v) for k, v in places.items()}) for word in words]
    with redirect_stdout(out), redirect_stderr(expected_answer):
        status = _main()(argv)
    assert status in expect, f"{argv}: exit status {status}\n{expected_answer.getvalue()}"
    return out.getvalue()


def _filled(word: str, places: dict[str, str]) -> str:
    for name, value in places.items():
        word = word.replace("{" + name + "}", value)
    return word


def printed_numbers(text: str) -> list[float]:
    """Every number of a text that stands by itself."""
    return [_number(gathered_numbers) for gathered_numbers in NUMBER.findall(text)]


def _number(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-").replace("∞", "inf"))


def without_prose(value: Any) -> Any:
    """The same, without what is said in words."""
    if isinstance(value, dict):
        return {k: without_prose(v) for k, v in value.items() if k not in names.PROSE}
    if isinstance(value, list):
        return [without_prose(v) for v in value]
    return value


# -- problems ------------------------------------------------------------------------------------


def solved() -> dict[str, Any]:
    """Every step of every lecture."""
    return {
        file.stem: without_prose(json.loads(command(names.SOLVE, file=file))) for file in LECTURES
    }


def checked() -> dict[str, Any]:
    """What is right and wrong in every lecture."""
    return {
        file.stem: without_prose(json.loads(command(names.CHECK, (0, 1), file=file)))
        for file in LECTURES
    }


def made(folder: Path) -> dict[str, Any]:
    """A sheet of every kind, with its key; and the marks of students."""
    gathered_numbers: dict[str, Any] = {}
    for kind, (size, count) in names.KINDS.items():
        sheet = folder / kind
        making = {"kind": kind, "size": size, "count": count, "out": sheet}
        command([*names.MAKE, *names.MAKE_INTO], **making)
        gathered_numbers[kind] = {
            **_sheet(sheet),
            "marks": _marks(sheet, folder / f"{kind}-answers"),
        }
    for kind in names.FAULTY_KINDS:
        sheet = folder / f"{kind}-faulty"
        making = {"kind": kind, "size": names.KINDS[kind][0], "count": 2, "out": sheet}
        command([*names.MAKE, *names.MAKE_FAULTY, *names.MAKE_INTO], **making)
        # The same problems, with a mistake that is carried on: handed in, what follows counts.
        carried = folder / f"{kind}-carried"
        shutil.copytree(sheet, carried / "carries on")
        marks = _graded(folder / kind, carried)
        gathered_numbers[f"{kind}, to find the error"] = {**_sheet(sheet), "marks": marks}
    return gathered_numbers


def _sheet(folder: Path) -> dict[str, Any]:
    return {
        part: [
            without_prose(tomllib.loads(file.read_text(encoding="utf-8")))
            for file in sorted(place.glob(names.PROBLEM_FILES))
        ]
        for part, place in (("sheet", folder), ("key", folder / names.KEY_FOLDER))
    }


def _marks(sheet: Path, answers: Path) -> list[dict[str, str]]:
    """Three students: all right, one number wrong, nothing written."""
    for student in ("right", "slip", "blank"):
        (answers / student).mkdir(parents=True)
    for blank in sorted(sheet.glob(names.PROBLEM_FILES)):
        ask_page = blank.read_text(encoding="utf-8")
        key = (sheet / names.KEY_FOLDER / blank.name).read_text(encoding="utf-8")
        (answers / "right" / blank.name).write_text(key, encoding="utf-8")
        (answers / "slip" / blank.name).write_text(_slipped(key, ask_page), encoding="utf-8")
        (answers / "blank" / blank.name).write_text(ask_page, encoding="utf-8")
    return _graded(sheet, answers)


def _graded(sheet: Path, answers: Path) -> list[dict[str, str]]:
    table = csv.DictReader(io.StringIO(command(names.GRADE, (0, 2), sheet=sheet, answers=answers)))
    return [without_prose(row) for row in table]


def _slipped(key: str, ask_page: str) -> str:
    """The key with the last cell of its first step off by one."""
    headers = [line for line in key.splitlines() if line.startswith("[") and line not in ask_page]
    at = key.index(headers[0])
    end = at + re.search(r"\]\]", key[at:]).start()  # type: ignore[union-attr]
    *_, cell = re.finditer(r"-?\d+(?:\.\d+)?", key[at:end])
    digits = len(cell[0].partition(".")[2])
    wrong = f"{float(cell[0]) + 1:.{digits}f}"
    return key[: at + cell.start()] + wrong + key[at + cell.end() :]


# -- training ------------------------------------------------------------------------------------


def small_data(folder: Path) -> dict[str, str]:
    """Write small sets to learn from."""
    kinds = {"fruit": ["fig", "pear", "plum"], "metal": ["tin", "iron", "zinc"]}
    lines = [
        json.dumps({"text": " ".join(some), "label": label})
        for label, of in kinds.items()
        for some in product(of, repeat=3)
    ]
    (folder / "fruit.jsonl").write_text("\n".join(lines), encoding="utf-8")
    words = {"one": "un", "two": "deux", "cat": "chat", "dog": "chien", "red": "rouge"}
    pairs = [
        f"{' '.join(some)}\t{' '.join(words[w] for w in reversed(some))}"
        for some in product(words, repeat=3)
    ]
    (folder / "pairs.tsv").write_text("\n".join(["en\tfr", *pairs]) + "\n", encoding="utf-8")
    from PIL import Image

    (folder / "pictures").mkdir()
    captions = ["image,caption"]
    for k, grey in enumerate(range(0, 240, 8)):
        pixels = np.full((32, 32, 3), grey, np.uint8)
        Image.fromarray(pixels).save(folder / "pictures" / f"{k}.png")
        captions.append(f"{k}.png,a {'dark' if grey < 120 else 'light'} square")
    text = "\n".join(captions) + "\n"
    (folder / "pictures" / "captions.txt").write_text(text, encoding="utf-8")
    return {
        "fruit": str(folder / "fruit.jsonl"),
        "pairs": str(folder / "pairs.tsv"),
        "squares": str(folder / "pictures" / "captions.txt"),
    }


def trained(folder: Path) -> dict[str, Path]:
    """Train every recipe of the table, on one thread."""
    data, runs = small_data(folder), {}
    for name, recipe in names.RECIPES.items():
        file = folder / f"{name}.toml"
        lines = (
            f"{key} = {_filled(json.dumps(value), data)}" for key, value in _nested_last(recipe)
        )
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        runs[name] = folder / name
        command(names.TRAIN, recipe=file, out=runs[name])
    return runs


def _nested_last(recipe: dict[str, Any]) -> list[tuple[str, Any]]:
    return sorted(recipe.items(), key=lambda item: "." in item[0])


def logged(runs: dict[str, Path]) -> dict[str, Any]:
    """What every training measured."""
    gathered_numbers: dict[str, Any] = {}
    for name, run in runs.items():
        lines = (run / names.LOG_FILE).read_text(encoding="utf-8").splitlines()
        gathered_numbers[name] = [
            {
                k: v
                for k, v in json.loads(line).items()
                if k not in names.TIMES and isinstance(v, int | float)
            }
            for line in lines
        ]
    return gathered_numbers


def printed(runs: dict[str, Path], folder: Path) -> dict[str, Any]:
    """The numbers that verbs print about runs, and the layer tables of the recipes."""
    gathered_numbers: dict[str, Any] = {
        name: printed_numbers(command(words, **runs)) for name, words in names.PRINTED.items()
    }
    for name, words in names.WRITTEN.items():
        file = folder / f"{name}.json"
        command(words, out=file, **runs)
        gathered_numbers[name] = numbers_in(json.loads(file.read_text(encoding="utf-8")))
    recipes = sorted((ROOT / "recipes").glob("*.toml"))
    layers = (printed_numbers(command(names.SUMMARY, recipe=recipe)) for recipe in recipes)
    gathered_numbers["layers of the recipes"] = sorted(layers)  # whatever a recipe's file is called
    return gathered_numbers


# -- other programs' formats ---------------------------------------------------------------------


def gpt2_logits(folder: Path, ids: list[int]) -> np.ndarray:
    """GPT-2 as its authors wrote it down, over a folder in Hugging Face's layout."""
    from safetensors.numpy import load_file

    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert config["model_type"] == "gpt2"
    weights = load_file(folder / "model.safetensors")
    w = {name.removeprefix("transformer."): t.astype(np.float64) for name, t in weights.items()}
    heads, width = config["n_head"], config["n_embd"]

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + config["layer_norm_epsilon"])
        return x * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    def gelu(x: np.ndarray) -> np.ndarray:
        if config["activation_function"] == "gelu":
            return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
        assert config["activation_function"] == "gelu_new"
        return x * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    x = w["wte.weight"][ids] + w["wpe.weight"][: len(ids)]
    for layer in range(config["n_layer"]):
        block = f"h.{layer}"
        qkv = linear(norm(x, f"{block}.ln_1"), f"{block}.attn.c_attn")
        q, k, v = (
            part.reshape(len(ids), heads, -1).swapaxes(0, 1) for part in np.split(qkv, 3, axis=-1)
        )
        scores = q @ k.swapaxes(1, 2) / math.sqrt(width / heads)
        scores = np.where(np.tri(len(ids), dtype=bool), scores, -np.inf)
        mixed = softmax(scores) @ v
        joined = mixed.swapaxes(0, 1).reshape(len(ids), width)
        x = x + linear(joined, f"{block}.attn.c_proj")
        inner = gelu(linear(norm(x, f"{block}.ln_2"), f"{block}.mlp.c_fc"))
        x = x + linear(inner, f"{block}.mlp.c_proj")
    return norm(x, "ln_f") @ w.get("lm_head.weight", w["wte.weight"]).T


def softmax(x: np.ndarray) -> np.ndarray:
    """Along the last axis."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def vocabulary(value: Any, letters: set[str]) -> list[str] | None:
    """The first list of a file that has all these letters in it: the tokens, by number."""
    if isinstance(value, list) and letters <= {one for one in value if isinstance(one, str)}:
        return value
    inside = value.values() if isinstance(value, dict) else value
    if isinstance(value, dict | list):
        for one in inside:
            if (gathered_numbers := vocabulary(one, letters)) is not None:
                return gathered_numbers
    return None


def letters_as_numbers(run: Path, text: str, size: int) -> list[int]:
    """A text in the numbers that a run's own files give its letters; specials come before them."""
    for file in sorted(run.rglob("*.json")):
        gathered_numbers = vocabulary(json.loads(file.read_text(encoding="utf-8")), set(text))
        if gathered_numbers is not None:
            return [
                size - len(gathered_numbers) + gathered_numbers.index(letter) for letter in text
            ]
    raise AssertionError(f"{run}: no vocabulary with {text!r}")


def exported(runs: dict[str, Path], page: Any, folder: Path) -> dict[str, Any]:
    """What other programs would compute with exported models."""
    gpt2, marian, engine = (folder / f"out-{form}" for form in ("gpt2", "marian", "engine"))
    command(names.EXPORT, run=runs["language-gpt"], form=names.GPT2, out=gpt2)
    size = json.loads((gpt2 / "config.json").read_text(encoding="utf-8"))["vocab_size"]
    ids = letters_as_numbers(runs["language-gpt"], names.PROMPT, size)
    gathered_numbers: dict[str, Any] = {"gpt2": gpt2_logits(gpt2, ids).tolist()}
    translator = runs["translate-transformer"]
    command(names.EXPORT, run=translator, form=names.MARIAN, out=marian)
    from safetensors.numpy import load_file

    tensors = load_file(marian / "model.safetensors")
    gathered_numbers["marian"] = [
        [list(t.shape), float(np.abs(t).sum()), float((t.ravel() * _ramp(t.size)).sum())]
        for _, t in sorted(tensors.items())
    ]
    command(names.EXPORT, run=translator, form=names.CTRANSLATE2, out=engine)
    source, target = names.SENTENCE.split(), translation(page).split()
    gathered_numbers["ctranslate2"] = _by_engine(engine, source, ["chat", "rouge", "un"])
    gathered_numbers["ctranslate2, of its own"] = _by_engine(engine, source, target)
    return gathered_numbers


def _ramp(size: int) -> np.ndarray:
    """Weights that tell one order of numbers from another."""
    return np.linspace(-1, 1, size)


def _by_engine(folder: Path, source: list[str], target: list[str]) -> list[float]:
    """The log-probability of each word, and of the end."""
    import ctranslate2

    engine = ctranslate2.Translator(str(folder), device="cpu", intra_threads=1)
    (scored,) = engine.score_batch([source], [target])
    return [float(one) for one in scored.log_probs]


# -- the page ------------------------------------------------------------------------------------


def numbers_in(value: Any, key: str = "") -> list[float]:
    """Numbers, and texts that are a number, in their order; what they are called does not count."""
    if isinstance(value, str) and key in names.PACKED:
        return np.frombuffer(base64.b64decode(value), "<i2").tolist()
    if isinstance(value, str) and key in names.NUMBERS_AMONG_WORDS:
        return printed_numbers(value)
    if isinstance(value, bool) or value is None or key in names.TIMES:
        return []
    if isinstance(value, int | float):
        return [value]
    if isinstance(value, str):
        return [_number(value)] if NUMBER.fullmatch(value) else []
    inside = value.items() if isinstance(value, dict) else (("", one) for one in value)
    return [number for name, one in inside for number in numbers_in(one, name)]


def client(runs: dict[str, Path]) -> Any:
    """The page's server, without a socket."""
    from starlette.testclient import TestClient

    run_registry = getattr(import_module(names.SHELF_MODULE), names.SHELF)([*runs.values()])
    app = getattr(import_module(names.WEB_MODULE), names.WEB_FACTORY)(run_registry)
    return TestClient(app, base_url="http://localhost")


def ask_page(page: Any, path: str, body: Any = None) -> Any:
    """Ask the page something."""
    answer = page.get(path) if body is None else page.post(path, json=body)
    assert answer.status_code == 200, f"{path}: {answer.text}"
    return answer.json()


def answered(page: Any) -> dict[str, Any]:
    """Every number in the page's answers."""
    gathered_numbers: dict[str, Any] = {}
    for file in LECTURES:
        table = ask_page(page, names.LECTURE.format(name=file.stem))
        gathered_numbers[f"lecture {file.stem}"] = numbers_in(table)
        for name, (path, body) in names.OF_A_LECTURE.items():
            filled = {k: table if v == "{table}" else v for k, v in body.items()}
            gathered_numbers[f"{name} {file.stem}"] = numbers_in(ask_page(page, path, filled))
    for name, (path, body) in names.ASKED.items():
        gathered_numbers[name] = numbers_in(ask_page(page, path, body))
    return gathered_numbers


def next_token(page: Any) -> list[float]:
    """How likely a run finds the next token, the likeliest first, as the page has it."""
    bars = ask_page(page, *names.ASKED["look language"])[names.LIKELY["bars"]]
    return [bar[names.LIKELY["share"]] for bar in bars]


def translation(page: Any) -> str:
    """What a run translates a sentence into, as the page has it."""
    return ask_page(page, *names.ASKED["look translate"])[names.WRITTEN_PART][names.WRITTEN_TEXT]


def log_probability(page: Any) -> float:
    """How likely the run itself finds its translation."""
    note = ask_page(page, *names.ASKED["look translate"])[names.WRITTEN_PART][names.WRITTEN_NOTE]
    return printed_numbers(note)[0]


# -- everything ----------------------------------------------------------------------------------


def rounded(value: Any, digits: int = 12) -> Any:
    """The same with fewer digits, as JSON can have it."""
    if isinstance(value, dict):
        return {k: rounded(v, digits) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(v, digits) for v in value]
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else str(value)
    return value
