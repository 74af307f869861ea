"""Collect the numbers that users see, from the command line, the files it writes and the page.

`freeze.py` writes them to frozen/; `test_frozen_numbers.py` compares them with it.
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
import public_names as names

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is loaded

ROOT = Path(__file__).parents[2]
LECTURES = sorted((ROOT / "lectures").glob("*.toml"))
NUMBER = re.compile(r"(?<![\w.])[-−+]?(?:\d[\d,]*\.?\d*(?:[eE][-+]?\d+)?|∞|inf\b)(?![\w])")

_ROUNDING_ERROR = re.compile(r"[-−]?[\d.]+·10⁻(?:[⁷⁸⁹]|[⁰¹²³⁴⁵⁶⁷⁸⁹]{2,})")


# -- the command line ----------------------------------------------------------------------------


@cache
def _main() -> Any:
    """Return the entry point of the command line."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, _, function = next(iter(project["scripts"].values())).partition(":")
    return getattr(import_module(module), function)


def run_command(words: list[str], expect: tuple[int, ...] = (0,), **values: Any) -> str:
    """Run a verb; return its standard output."""
    out, errors = io.StringIO(), io.StringIO()
    argv = [_fill_in(word, {k: str(v) for k, v in values.items()}) for word in words]
    with redirect_stdout(out), redirect_stderr(errors):
        status = _main()(argv)
    assert status in expect, f"{argv}: exit status {status}\n{errors.getvalue()}"
    return out.getvalue()


def _fill_in(word: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        word = word.replace("{" + name + "}", value)
    return word


def parse_numbers(text: str) -> list[float]:
    """Return the numbers in a text, without those that are part of a word.

    Rounding errors, such as 2.5·10⁻⁸, count as 0: they differ from processor to processor.
    """
    return [_parse_number(number) for number in NUMBER.findall(_ROUNDING_ERROR.sub("0", text))]


def _parse_number(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-").replace("∞", "inf"))


def remove_prose(value: Any) -> Any:
    """Return JSON without the keys whose values are sentences."""
    if isinstance(value, dict):
        return {k: remove_prose(v) for k, v in value.items() if k not in names.PROSE_KEYS}
    if isinstance(value, list):
        return [remove_prose(v) for v in value]
    return value


# -- problems ------------------------------------------------------------------------------------


def solve_lectures() -> dict[str, Any]:
    """Return every step of every lecture."""
    return {
        file.stem: remove_prose(json.loads(run_command(names.SOLVE, file=file)))
        for file in LECTURES
    }


def check_lectures() -> dict[str, Any]:
    """Return the verdicts on every lecture."""
    return {
        file.stem: remove_prose(json.loads(run_command(names.CHECK, (0, 1), file=file)))
        for file in LECTURES
    }


def make_sheets(folder: Path) -> dict[str, Any]:
    """Return a sheet of every kind with its key, and the grades of three students."""
    numbers: dict[str, Any] = {}
    for kind, (size, count) in names.KINDS.items():
        sheet = folder / kind
        making = {"kind": kind, "size": size, "count": count, "out": sheet}
        run_command([*names.MAKE, *names.MAKE_INTO], **making)
        numbers[kind] = {
            **_read_sheet(sheet),
            "marks": _grade_three_students(sheet, folder / f"{kind}-answers"),
        }
    for kind in names.FAULTY_KINDS:
        sheet = folder / f"{kind}-faulty"
        making = {"kind": kind, "size": names.KINDS[kind][0], "count": 2, "out": sheet}
        run_command([*names.MAKE, *names.MAKE_FAULTY, *names.MAKE_INTO], **making)
        # Graded as answers to the sheet without mistakes: numbers that follow from the planted
        # mistake get points.
        answers = folder / f"{kind}-faulty-answers"
        shutil.copytree(sheet, answers / "student")
        marks = _grade(folder / kind, answers)
        numbers[f"{kind}, to find the error"] = {**_read_sheet(sheet), "marks": marks}
    return numbers


def _read_sheet(folder: Path) -> dict[str, Any]:
    return {
        part: [
            remove_prose(tomllib.loads(file.read_text(encoding="utf-8")))
            for file in sorted(path.glob(names.PROBLEM_FILES))
        ]
        for part, path in (("sheet", folder), ("key", folder / names.KEY_FOLDER))
    }


def _grade_three_students(sheet: Path, answers: Path) -> list[dict[str, str]]:
    """Grade three students: one all right, one with a wrong number, one with blanks only."""
    for student in ("right", "slip", "blank"):
        (answers / student).mkdir(parents=True)
    for file in sorted(sheet.glob(names.PROBLEM_FILES)):
        blank = file.read_text(encoding="utf-8")
        key = (sheet / names.KEY_FOLDER / file.name).read_text(encoding="utf-8")
        (answers / "right" / file.name).write_text(key, encoding="utf-8")
        (answers / "slip" / file.name).write_text(_with_slip(key, blank), encoding="utf-8")
        (answers / "blank" / file.name).write_text(blank, encoding="utf-8")
    return _grade(sheet, answers)


def _grade(sheet: Path, answers: Path) -> list[dict[str, str]]:
    table = csv.DictReader(
        io.StringIO(run_command(names.GRADE, (0, 2), sheet=sheet, answers=answers))
    )
    return [remove_prose(row) for row in table]


def _with_slip(key: str, blank: str) -> str:
    """Return the key with an error of 1 in the last cell of its first step."""
    headers = [line for line in key.splitlines() if line.startswith("[") and line not in blank]
    at = key.index(headers[0])
    end = at + re.search(r"\]\]", key[at:]).start()  # type: ignore[union-attr]
    *_, cell = re.finditer(r"-?\d+(?:\.\d+)?", key[at:end])
    digits = len(cell[0].partition(".")[2])
    wrong = f"{float(cell[0]) + 1:.{digits}f}"
    return key[: at + cell.start()] + wrong + key[at + cell.end() :]


# -- training ------------------------------------------------------------------------------------


def write_small_datasets(folder: Path) -> dict[str, str]:
    """Write small datasets; return their paths by name."""
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


def train_recipes(folder: Path) -> dict[str, Path]:
    """Train every recipe of RECIPES on one thread; return the runs by name."""
    data, runs = write_small_datasets(folder), {}
    for name, recipe in names.RECIPES.items():
        file = folder / f"{name}.toml"
        lines = (
            f"{key} = {_fill_in(json.dumps(value), data)}"
            for key, value in _sort_sections_last(recipe)
        )
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        runs[name] = folder / name
        run_command(names.TRAIN, recipe=file, out=runs[name])
    return runs


def _sort_sections_last(recipe: dict[str, Any]) -> list[tuple[str, Any]]:
    return sorted(recipe.items(), key=lambda item: "." in item[0])


def read_logs(runs: dict[str, Path]) -> dict[str, Any]:
    """Return the numbers in the log of every run, without times."""
    numbers: dict[str, Any] = {}
    for name, run in runs.items():
        lines = (run / names.LOG_FILE).read_text(encoding="utf-8").splitlines()
        numbers[name] = [
            {
                k: v
                for k, v in json.loads(line).items()
                if k not in names.TIME_KEYS and isinstance(v, int | float)
            }
            for line in lines
        ]
    return numbers


def collect_printed_numbers(runs: dict[str, Path], folder: Path) -> dict[str, Any]:
    """Return the numbers that verbs print about runs, and the layer tables of the recipes."""
    numbers: dict[str, Any] = {
        name: parse_numbers(run_command(words, **runs))
        for name, words in names.PRINTING_COMMANDS.items()
    }
    numbers["head"].sort()  # matrices stand side by side where rounding errors leave them narrow
    for name, words in names.WRITING_COMMANDS.items():
        file = folder / f"{name}.json"
        run_command(words, out=file, **runs)
        numbers[name] = list_numbers(json.loads(file.read_text(encoding="utf-8")))
    recipes = sorted((ROOT / "recipes").glob("*.toml"))
    layers = (parse_numbers(run_command(names.SUMMARY, recipe=recipe)) for recipe in recipes)
    numbers["layers of the recipes"] = sorted(layers)  # for any names of the files
    return numbers


# -- formats of other programs ---------------------------------------------------------------------


def gpt2_logits(folder: Path, ids: list[int]) -> np.ndarray:
    """Compute the logits of GPT-2 with numpy, from a folder in Hugging Face's format."""
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
    """Return the softmax along the last axis."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def find_vocabulary(value: Any, characters: set[str]) -> list[str] | None:
    """Return the first list in a JSON value that contains all these characters."""
    if isinstance(value, list) and characters <= {one for one in value if isinstance(one, str)}:
        return value
    inside = value.values() if isinstance(value, dict) else value
    if isinstance(value, dict | list):
        for one in inside:
            if (vocabulary := find_vocabulary(one, characters)) is not None:
                return vocabulary
    return None


def encode_characters(run: Path, text: str, size: int) -> list[int]:
    """Encode a text with the vocabulary in a run's files; special tokens precede it."""
    for file in sorted(run.rglob("*.json")):
        vocabulary = find_vocabulary(json.loads(file.read_text(encoding="utf-8")), set(text))
        if vocabulary is not None:
            num_specials = size - len(vocabulary)
            return [num_specials + vocabulary.index(character) for character in text]
    raise AssertionError(f"{run}: no vocabulary with {text!r}")


def compute_exported_models(runs: dict[str, Path], page: Any, folder: Path) -> dict[str, Any]:
    """Export models and compute with them as the other programs do."""
    gpt2, marian, engine = (folder / f"out-{form}" for form in ("gpt2", "marian", "engine"))
    run_command(names.EXPORT, run=runs["language-gpt"], form=names.GPT2, out=gpt2)
    size = json.loads((gpt2 / "config.json").read_text(encoding="utf-8"))["vocab_size"]
    ids = encode_characters(runs["language-gpt"], names.PROMPT, size)
    numbers: dict[str, Any] = {"gpt2": gpt2_logits(gpt2, ids).tolist()}
    translator = runs["translate-transformer"]
    run_command(names.EXPORT, run=translator, form=names.MARIAN, out=marian)
    from safetensors.numpy import load_file

    tensors = load_file(marian / "model.safetensors")
    numbers["marian"] = [
        [list(t.shape), float(np.abs(t).sum()), float((t.ravel() * _ramp(t.size)).sum())]
        for _, t in sorted(tensors.items())
    ]
    run_command(names.EXPORT, run=translator, form=names.CTRANSLATE2, out=engine)
    source, target = names.SENTENCE.split(), get_translation(page).split()
    numbers["ctranslate2"] = _score_with_ctranslate2(engine, source, ["chat", "rouge", "un"])
    numbers["ctranslate2, own translation"] = _score_with_ctranslate2(engine, source, target)
    return numbers


def _ramp(size: int) -> np.ndarray:
    """Return weights that make a sum depend on the order of its terms."""
    return np.linspace(-1, 1, size)


def _score_with_ctranslate2(folder: Path, source: list[str], target: list[str]) -> list[float]:
    """Return the log-probability of each word and of the end."""
    import ctranslate2

    engine = ctranslate2.Translator(str(folder), device="cpu", intra_threads=1)
    (scored,) = engine.score_batch([source], [target])
    return [float(one) for one in scored.log_probs]


# -- the page ------------------------------------------------------------------------------------


def list_numbers(value: Any, key: str = "") -> list[float]:
    """List the numbers of a JSON value in order, and texts that are a number; ignore the keys."""
    if isinstance(value, str) and key in names.PACKED_KEYS:
        return np.frombuffer(base64.b64decode(value), "<i2").tolist()
    if isinstance(value, str) and key in names.KEYS_OF_TEXT_WITH_NUMBERS:
        return parse_numbers(value)
    if isinstance(value, bool) or value is None or key in names.TIME_KEYS:
        return []
    if isinstance(value, int | float):
        return [value]
    if isinstance(value, str):
        return [_parse_number(value)] if NUMBER.fullmatch(value) else []
    inside = value.items() if isinstance(value, dict) else (("", one) for one in value)
    return [number for name, one in inside for number in list_numbers(one, name)]


def make_client(runs: dict[str, Path]) -> Any:
    """Return a test client of the page."""
    from starlette.testclient import TestClient

    run_registry = getattr(import_module(names.REGISTRY_MODULE), names.REGISTRY)([*runs.values()])
    app = getattr(import_module(names.WEB_MODULE), names.WEB_FACTORY)(run_registry)
    return TestClient(app, base_url="http://localhost")


def request(page: Any, path: str, body: Any = None) -> Any:
    """Send a request to the page; return the JSON of the response."""
    response = page.get(path) if body is None else page.post(path, json=body)
    assert response.status_code == 200, f"{path}: {response.text}"
    return response.json()


def collect_responses(page: Any) -> dict[str, Any]:
    """Return the numbers in the page's responses."""
    numbers: dict[str, Any] = {}
    for file in LECTURES:
        table = request(page, names.LECTURE.format(name=file.stem))
        numbers[f"lecture {file.stem}"] = list_numbers(table)
        for name, (path, body) in names.LECTURE_REQUESTS.items():
            filled = {k: table if v == "{table}" else v for k, v in body.items()}
            numbers[f"{name} {file.stem}"] = list_numbers(request(page, path, filled))
    for name, (path, body) in names.REQUESTS.items():
        numbers[name] = list_numbers(request(page, path, body))
    return numbers


def get_next_token_probabilities(page: Any) -> list[float]:
    """Return the page's probabilities of the next token, largest first."""
    bars = request(page, *names.REQUESTS["inspect language"])["bars"]
    return [bar["probability"] for bar in bars]


def get_translation(page: Any) -> str:
    """Return the page's translation of SENTENCE."""
    return request(page, *names.REQUESTS["inspect translate"])["output"]["text"]


def get_log_probability(page: Any) -> float:
    """Return the page's log-probability of its translation."""
    note = request(page, *names.REQUESTS["inspect translate"])["output"]["note"]
    return parse_numbers(note)[0]


# -- rounding ------------------------------------------------------------------------------------


def round_floats(value: Any, digits: int = 12) -> Any:
    """Round to significant digits; convert tuples to lists and infinity to a string, for JSON."""
    if isinstance(value, dict):
        return {k: round_floats(v, digits) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [round_floats(v, digits) for v in value]
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else str(value)
    return value
