"""The course docs/path.md: its exercises check themselves, and its numbers are the library's."""

import contextlib
import io
import math
import re
import tomllib
from dataclasses import dataclass
from itertools import pairwise

import figures
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from commands import ROOT
from markdown_it import MarkdownIt

from documents import read_blocks
from workings import Problem, attend
from workings.cli import main
from workings.decode import Sampling, beam_search, filter_probabilities
from workings.layers.positions import sinusoids
from workings.layers.recurrent import RNN

COURSE = ROOT / "docs" / "path.md"
TEXT = COURSE.read_text(encoding="utf-8")
LESSONS = 12
TERMS = (
    "recurrent neural network", "embedding", "hidden state", "unrolled", "logits", "softmax",
    "cross-entropy", "back-propagation through time", "vanishing gradient", "gradient clipping",
    "long short-term memory", "cell state", "gated recurrent unit", "language model",
    "autoregressive", "perplexity", "teacher forcing", "exposure bias", "scheduled sampling",
    "greedy", "temperature", "encoder", "decoder", "context vector", "bidirectional", "bottleneck",
    "attention weights", "additive attention", "alignment", "self-attention", "query", "key",
    "value", "scaled dot-product attention", "multi-head attention", "permutation equivariant",
    "positional encoding", "causal mask", "padding mask", "feed-forward", "residual connection",
    "layer normalization", "kv cache", "beam search", "length penalty", "cross-attention",
    "label smoothing", "encoder-only", "decoder-only",
)  # fmt: skip


@dataclass(frozen=True)
class Exercise:
    """An exercise of the course: its text, its file to fill in, its commands and its answer."""

    name: str
    text: str

    @property
    def file(self) -> str:
        return next(iter(re.findall(r"^```toml (\S+)$", self.text, re.MULTILINE)), "")

    @property
    def problem(self) -> dict[str, object]:
        block = re.search(r"^```toml \S+$\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL)
        return tomllib.loads(block[1])

    @property
    def commands(self) -> list[str]:
        blocks = re.findall(r"^```sh$\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL)
        return [line for block in blocks for line in block.splitlines()]

    @property
    def answer(self) -> str:
        answer = re.search(
            r"<details><summary>Answer</summary>\n(.*?)\n</details>", self.text, re.S
        )
        return answer[1] if answer else ""


def _exercises() -> dict[str, Exercise]:
    parts = re.split(r"^\*\*Exercise (\d+\.\d)\.\*\* ", TEXT, flags=re.MULTILINE)
    texts = (re.split(r"^## ", text, flags=re.MULTILINE)[0] for text in parts[2::2])
    return {name: Exercise(name, text) for name, text in zip(parts[1::2], texts, strict=True)}


EXERCISES = _exercises()
FILES = [exercise for exercise in EXERCISES.values() if exercise.file]


def test_each_lesson_has_a_figure_a_formula_and_three_exercises():
    lessons = re.split(r"^## \d+\. ", TEXT, flags=re.MULTILINE)[1:]
    assert len(lessons) == LESSONS
    for number, lesson in enumerate(lessons, start=1):
        assert re.search(r"^!\[[^\]]+\]\(figures/\S+\.svg\)$", lesson, re.MULTILINE), number
        exercises = re.findall(r"^\*\*Exercise (\S+)\.\*\* ", lesson, re.MULTILINE)
        assert exercises == [f"{number}.{k}" for k in (1, 2, 3)]
        assert re.search(r"^```\n", lesson, re.MULTILINE) or number == 11


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_an_exercise_checks_itself(exercise):
    if exercise.file:
        assert exercise.commands == [f"workings check {exercise.file}"]
    else:
        assert exercise.answer or exercise.commands


@pytest.mark.parametrize("exercise", FILES, ids=lambda exercise: exercise.file)
def test_a_file_accepts_the_solution_and_refuses_any_other_number(exercise):
    solution = Problem(**exercise.problem).solve()
    cells = [path for path, value in _cells(exercise.problem["claim"]) if value == "?"]
    assert cells
    right = _fill(exercise.problem, solution)
    report = Problem(**right).check()
    assert report.verdict == "right"
    verdicts = {verdict for path in cells for row in report[_step(path)] for verdict in row}
    assert verdicts <= {"right", "rounded"}
    for path in cells:
        wrong = _fill(exercise.problem, solution)
        *before, last = path
        row = _follow(wrong["claim"], before)
        row[last] = f"{float(row[last]) + 0.3:.3f}"
        assert Problem(**wrong).check().verdict == "wrong", path


def _cells(claim, path=()):
    """Yield every cell of a claim with its path of keys and indices."""
    if isinstance(claim, dict | list):
        items = claim.items() if isinstance(claim, dict) else enumerate(claim)
        for key, value in items:
            yield from _cells(value, (*path, key))
    else:
        yield path, claim


def _follow(value, path):
    for key in path:
        value = value[key]
    return value


def _fill(problem, solution):
    """Return a copy of a problem in which every "?" is the solution's number, with 3 decimals."""
    filled = {**problem, "claim": _copy(problem["claim"])}
    for path, value in _cells(problem["claim"]):
        if value == "?":
            indices = [key for key in path if isinstance(key, int)]
            number = solution[_step(path)][tuple([0, *indices][-2:])]
            _follow(filled["claim"], path[:-1])[path[-1]] = f"{number:.3f}"
    return filled


def _step(path):
    """Return the name of the step that a claim's cell belongs to: `t.2.h` is the step `h.2`."""
    names = [key for key in path if isinstance(key, str) and key not in ("t", "head")]
    return ".".join(reversed(names))


def _copy(value):
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True)
class Sizes:
    """The parameters of a recipe's layers, by row of `workings summary`, and their total."""

    rows: dict[str, int]
    total: str

    def of(self, prefix: str, part: str = "") -> int:
        return sum(n for row, n in self.rows.items() if row.startswith(prefix) and part in row)


def _sizes(recipe):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["summary", str(recipe)]) == 0
    rows = re.findall(r"^(\S+) \(\w+\) +\[.*?\] +([\d,]+)", printed.getvalue(), re.MULTILINE)
    total = re.search(r"^parameters: ([\d,]+)", printed.getvalue(), re.MULTILINE)[1]
    return Sizes({name: int(count.replace(",", "")) for name, count in rows}, total)


@pytest.fixture(scope="module")
def sizes(tmp_path_factory):
    recurrent = tmp_path_factory.mktemp("recipe") / "recurrent.toml"
    recurrent.write_text(_named("recurrent.toml"), encoding="utf-8")
    helo, french = (ROOT / "recipes" / f"{name}.toml" for name in ("helo", "emoji-french"))
    return {"helo": _sizes(helo), "french": _sizes(french), "recurrent": _sizes(recurrent)}


def _named(name):
    return next(block.text for block in read_blocks(COURSE) if block.name == name)


def _lecture(name):
    return Problem.load(ROOT / f"lectures/{name}.toml").check()


def _3(*numbers):
    return [f"{number:.3f}" for number in numbers]


def _softmax(*scores):
    """Return the library's attention weights for one row of scores."""
    query, identity = torch.tensor([scores]).double(), torch.eye(len(scores)).double()
    return attend(query, identity, identity, scale=1.0)[0].tolist()


def _sampled(temperature):
    """Return the library's probability of the first of three tokens."""
    logits = torch.tensor([[2.0, 1.0, 0.0]])
    return filter_probabilities(logits, Sampling(temperature=temperature))[0, 0].item()


def _perplexity():
    probabilities = torch.tensor([[0.5, 0.5], [0.25, 0.75], [0.5, 0.5], [0.25, 0.75]])
    loss = F.cross_entropy(probabilities.log(), torch.zeros(4, dtype=torch.long)).item()
    return [f"{loss:.3f} nats", f"{loss / math.log(2):.1f} bits", f"{math.exp(loss):.2f}"]


def _forget_gate():
    kept = 0.5 ** (1 / 100)
    return [f"{kept:.5f}", *_3(math.log(kept / (1 - kept)))]


def _margin():
    assert _softmax(math.log(27), 0.0, 0.0, 0.0)[0] == pytest.approx(0.9)
    return _3(math.log(27))


def _wrong_score():
    first = _lecture("L2-self").first
    assert first.key == "scores"
    return [f"Row {first.cell[0] + 1}, column {first.cell[1] + 1}", f"= {first.expected:g}, not 18"]


def _scaling():
    query, keys = torch.zeros(1, 64).double(), torch.eye(2, 64).double()
    query[0, 0] = 8
    values = torch.eye(2).double()
    scaled = attend(query, keys, values)[0, 0].item()
    unscaled = attend(query, keys, values, scale=1.0)[0, 0].item()
    slopes = scaled * (1 - scaled), unscaled * (1 - unscaled)
    return [*_3(scaled, slopes[0]), f"{unscaled:.5f}", f"{slopes[1]:.5f}"]


def _wrong_cosines():
    assert _lecture("L3-positions")["encoding"][0] == ["right", "wrong", "right", "wrong"]
    return ["Columns 2 and 4"]


def _distance():
    waves = sinusoids(9, 4).double()
    assert waves[0] @ waves[1] == pytest.approx(waves[7] @ waves[8])
    return _3(waves[0] @ waves[1])


def _zeros_after_softmax():
    after = _softmax(0.0, 1.0, 2.0)[:2]
    return _3(*_softmax(0.0, 1.0), *after, sum(after))


def _copied_row():
    report = _lecture("L0-masked")
    assert report["V"] == [["right"] * 3, ["wrong"] * 3]
    return ["Row 2", *_3(report.first.expected), "−0.02"]


def _block(sizes):
    first = (sizes["french"].of("encoder.0", part) for part in (".attention.", ".feed_forward."))
    norms = sizes["french"].of("encoder.0", ".norm")
    return [f"{n:,}" for n in (*first, norms, sizes["french"].of("encoder.0"))]


def _transformer(sizes):
    french = sizes["french"]
    block, attention = french.of("encoder.0"), french.of("encoder.0", ".attention.")
    decoder = block + attention + 2 * 128
    counts = [f"{n:,}" for n in (french.of("target_embedding"), block, decoder)]
    return [*counts, f"= {french.total}"]


def _smoothed():
    target = torch.full((1, 2000), 0.1 / 2000).double()
    target[0, 7] += 0.9
    loss = F.cross_entropy(target.log(), torch.tensor([7]), label_smoothing=0.1)
    return [f"{target[0, 7]:.5f}", f"{target[0, 0]:.5f}", *_3(loss)]


class Toy:
    """The model of the beam search figure: the probability of each token after the one before."""

    TOKENS = ("a", "b", "[STOP]")

    def _logits(self, text):
        return [math.log(figures.BEAM[text].get(token, 1e-9)) for token in self.TOKENS]

    def start(self, _source):
        return torch.tensor([self._logits("")]), self

    def step(self, tokens, _state):
        return torch.tensor([self._logits(self.TOKENS[token]) for token in tokens]), self

    def select(self, _rows):
        return self


def _searched(beams):
    """Return the best output of two tokens and its log-probability, as the answer puts them."""
    best = beam_search(Toy(), None, stop=2, max_length=2, beams=beams)[0][0]
    tokens = [*(Toy.TOKENS[token] for token in best.tokens), "[STOP]"][:2]
    probability = math.exp(best.log_probability)
    return f'"{" ".join(tokens)}" with log {probability:.2f} = −{-best.log_probability:.3f}'


# For each exercise with an answer to open: the numbers that the answer must contain.
ANSWERS = {
    "1.2": lambda _: _3(
        _softmax(0.0, 2.0, 1.0, 0.0)[1], -math.log(_softmax(0.0, 2.0, 1.0, 0.0)[1])
    ),
    "1.3": lambda sizes: [f"= {sizes['helo'].of('recurrent')}."],
    "2.1": lambda _: [f"{0.9**50:.4f}", f"{1.1**50:.1f}"],
    "2.3": lambda _: _forget_gate(),
    "3.1": lambda _: _perplexity(),
    "3.2": lambda _: _3(_sampled(1.0), _sampled(0.5), _sampled(2.0)),
    "4.1": lambda _: [f"{n * math.log2(2000):.{d}f}" for n, d in ((1, 2), (4, 1), (40, 1))],
    "4.3": lambda sizes: [
        f"{sizes['recurrent'].of(name):,}" for name in ("encoder.layers.0.0", "encoder")
    ],
    "5.3": lambda _: _margin(),
    "6.2": lambda _: _wrong_score(),
    "6.3": lambda _: _scaling(),
    "7.2": lambda sizes: [f"{sizes['french'].of('encoder.0', '.attention.'):,}"],
    "7.3": lambda _: [f"√{128 // 4} = {math.sqrt(128 / 4):.3f}"],
    "8.2": lambda _: _wrong_cosines(),
    "8.3": lambda _: _distance(),
    "9.2": lambda _: _zeros_after_softmax(),
    "9.3": lambda _: _copied_row(),
    "10.3": _block,
    "11.1": lambda _: [_searched(beams=1), _searched(beams=2)],
    "11.2": lambda _: [f"{2 * 2 * 20 * 128:,}", "256"],
    "11.3": lambda _: [f"{4096**2:,}", f"{4096**2 * 4 // 2**20} MiB"],
    "12.2": _transformer,
    "12.3": lambda _: _smoothed(),
}


def test_every_answer_is_recomputed():
    assert {name for name, exercise in EXERCISES.items() if exercise.answer} == set(ANSWERS)


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_has_the_right_numbers(name, sizes):
    for number in ANSWERS[name](sizes):
        pattern = rf"(?<![\d.,]){re.escape(number)}(?!\d)"
        assert re.search(pattern, EXERCISES[name].answer), number


def test_evaluate_prints_loss_bits_and_perplexity(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    run = str(tmp_path / "helo")
    assert main(["train", "recipes/helo.toml", "--train.epochs", "1", "--out", run]) == 0
    capsys.readouterr()
    assert main(["evaluate", run]) == 0
    printed = capsys.readouterr().out
    loss, bits, perplexity = (
        float(re.search(rf"^validation {name} ([\d.]+)$", printed, re.MULTILINE)[1])
        for name in ("loss", "bits per character", "perplexity")
    )
    assert bits == pytest.approx(loss / math.log(2), abs=2e-4)
    assert perplexity == pytest.approx(math.exp(loss), rel=1e-3)


def test_the_attention_example_equals_the_solution():
    given = tomllib.loads(_named("example.toml"))["given"]
    solution = Problem.from_toml(_named("example.toml")).solve()
    projected, scored, results = _tables()
    for k, (_, x, *rows) in enumerate(projected):
        assert _numbers(x) == given["X"][k]
        assert list(map(_numbers, rows)) == [solution[step][k].tolist() for step in "QKV"]
    powers = np.exp(solution["scaled"][1])
    for k, row in enumerate(scored):
        scaled, weight = solution["scaled"][1, k], solution["weights"][1, k]
        assert row[1:] == [f"{solution['scores'][1, k]:g}", *_3(scaled, powers[k], weight)]
    assert f"sum to {powers.sum():.3f}" in TEXT
    for k, (_, weights, output) in enumerate(results):
        assert weights == ", ".join(_3(*solution["weights"][k]))
        assert output == ", ".join(_3(*solution["mixed"][k]))
    assert f"= ({', '.join(_3(*solution['mixed'][1]))})" in TEXT


def _numbers(cell):
    return [float(number) for number in cell.split(", ")]


def _tables():
    """Return the tables of the course as lists of rows of cells, without their heads."""
    tables = []
    tokens = MarkdownIt("commonmark").enable("table").parse(TEXT)
    for before, token in pairwise(tokens):
        if token.type == "tbody_open":
            tables.append([])
        elif token.type == "inline" and before.type == "td_open":
            tables[-1][-1].append(token.content)
        elif token.type == "tr_open" and before.type != "thead_open":
            tables[-1].append([])
    return tables


def test_the_gradient_example_equals_that_of_the_rnn_layer():
    layer = RNN(1, 1, batch_first=True)
    for name, value in (("weight_ih", 1.0), ("weight_hh", 0.8), ("bias_ih", 0), ("bias_hh", 0)):
        torch.nn.init.constant_(getattr(layer, f"{name}_l0"), value)
    states, _ = layer(torch.tensor([[[1.0], [0.0], [0.0]]]))
    numbers = [f"{state:.3f}" for state in states.flatten().tolist()]
    assert f"The states are {numbers[0]}, {numbers[1]} and {numbers[2]}." in TEXT
    start = states[:, :1].detach().requires_grad_()
    _, last = layer(torch.zeros(1, 2, 1), start.transpose(0, 1))
    (gradient,) = torch.autograd.grad(last.sum(), start)
    assert f"(1 − {numbers[1]}²) = {gradient.item():.3f}" in TEXT


def test_translation_scores_are_those_of_the_results():
    page = (ROOT / "docs" / "translate.md").read_text(encoding="utf-8")
    bleu = {
        name: float(re.search(rf"\[multi30k-de-en-{name}\].*?\*\*([\d.]+)\*\*", page)[1])
        for name in ("rnn", "context", "attention", "transformer")
    }
    flat = " ".join(TEXT.split())
    assert f"only as its first state reaches {bleu['rnn']:.0f} BLEU" in flat
    assert f"One that sees it at every step reaches {bleu['context']:.0f}." in flat
    assert f"With attention, the next lesson, it is {bleu['attention']:.0f}" in flat
    assert f"the Transformer reaches {bleu['transformer']:.0f} BLEU" in flat
    assert f"attention over a GRU reached {bleu['attention']:.0f}." in flat


def test_terms_are_introduced_once():
    italics = []
    for token in MarkdownIt("commonmark").enable("table").parse(TEXT):
        children = token.children or []
        for before, child in pairwise(children):
            if before.type == "em_open":
                texts = children[children.index(child) :]
                end = next(k for k, part in enumerate(texts) if part.type == "em_close")
                term = " ".join(part.content for part in texts[:end])
                italics.append(" ".join(term.lower().split()))
    for term in TERMS:
        assert italics.count(term) == 1, term


def test_figures_are_drawn_by_the_script_and_used_with_a_description():
    images = dict(re.findall(r"^!\[([^\]]+)\]\(figures/([\w-]+)\.svg\)$", TEXT, re.MULTILINE))
    used = {name: description for description, name in images.items()}
    assert set(used) == set(figures.FIGURES)
    assert {path.stem for path in (ROOT / "docs/figures").iterdir()} == set(figures.FIGURES)
    for name, draw in figures.FIGURES.items():
        svg = (ROOT / f"docs/figures/{name}.svg").read_text(encoding="utf-8")
        assert svg == draw().svg(), f"{name}: run python docs/figures.py"
        assert "<title>" in svg
        assert "prefers-color-scheme: dark" in svg
        assert len(used[name]) > 60


def test_figures_have_the_numbers_of_the_library():
    assert figures.softmax([0.0, 1.0]) == pytest.approx(_softmax(0, 1))
    for position in (0, 1, 23):
        exact = sinusoids(24, 16)[position].tolist()
        assert figures.encoding(position, 16) == pytest.approx(exact, abs=1e-5)
