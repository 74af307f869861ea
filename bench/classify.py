"""Compare IMDB classifiers: batches by length, padding to 500 as in the notes, and Hugging Face.

    python bench/classify.py [--rounds 5] [--threads 2 1] [--only Transformer]

It times training steps on the same examples, 64 per step, in the package's training loop:
collating, forward, backward, clipping and fused AdamW. Reading and encoding are not included.
Implementations take turns of ten batches, and a ratio is the median of the rounds' ratios. Also
reported: the ratio of CPU time, which other processes affect less, and the ratio of tokens read,
padding included.

- workings: batches of texts of similar length, as in a real epoch (sorted within pools of 50).
- padded: the same model with every text padded to 500.
- notes: the model of the lecture notes in torch's layers, with every text padded to 500.
- Hugging Face: BertForSequenceClassification with the same layers, width, heads, feed-forward
  width, vocabulary, positions, activation and dropout, with sdpa attention, each batch padded to
  its longest text; with random batches, as its Trainer makes them, and with our batches by length.
  Needs `pip install '.[bench]'`, and is left out otherwise.

Slower models take every fifth batch of a pool, ordered by length; the same examples for all. Writes
results/classify.json.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from workings.cli import set_num_threads

# Before torch is imported, as in the command line.
NUM_THREADS = set_num_threads() if __name__ == "__main__" else 1

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from report import environment, explain_import_error, peak_mib, run_script, save, show  # noqa: E402
from workings.data import (  # noqa: E402
    Example,
    Splits,
    Tokenizer,
    WordTokenizer,
    load_dataset,
    make_batches,
    train_tokenizer,
)
from workings.layers.convolution import padding_mask  # noqa: E402
from workings.models.classifier_base import TextClassifier  # noqa: E402
from workings.models.classifiers import build_classifier  # noqa: E402
from workings.recipes import (  # noqa: E402
    ClassificationDataConfig,
    ClassificationRecipe,
    TokenizerConfig,
    TrainConfig,
    parse_classifier_config,
)
from workings.tasks.classification import Classification  # noqa: E402
from workings.training.logging import Log  # noqa: E402
from workings.training.trainer import Trainer  # noqa: E402

BATCH, POOL, MAX_LENGTH, VOCABULARY = 64, 50, 500, 20_000
TURN = 10  # batches: with fewer, each turn would start with a cold cache
TARGETS = {"padded": 2.0, "notes": 2.0, "Hugging Face": 1.0}
PADDED = ("padded", "notes")
BY_LENGTH = ("workings", "Hugging Face, by length")
TRANSFORMER = {
    "kind": "transformer",
    "layers": 2,
    "heads": 4,
    "d_ff": 256,
    "positions": "learned",
    "max_positions": 512,
}
LSTM = {"cell": "lstm", "layers": 2, "bidirectional": True}


@dataclass(frozen=True)
class Case:
    """A model to train, and the number of batches of a pool to train it on."""

    model: dict[str, Any]
    batches: int = POOL
    warm_up: int = 3


CASES = {
    "RNN": Case({"kind": "recurrent", "cell": "rnn", "pooling": "last"}),
    "BiLSTM, 2 layers": Case({"kind": "recurrent", "pooling": "last", **LSTM}, 10, 1),
    "Conv1D + max": Case({"kind": "convolution", "pooling": "max"}),
    "Transformer": Case(TRANSFORMER, 10, 1),
    "Transformer, dropout 0.1": Case({**TRANSFORMER, "dropout": 0.1}, 10, 1),
}


# -- the implementations ---------------------------------------------------------------------------


def recipe_for(model: dict[str, Any]) -> ClassificationRecipe:
    """Return a recipe with default training: AdamW, clipped gradients."""
    return ClassificationRecipe(
        data=ClassificationDataConfig(set="imdb", validation=0.0, max_length=MAX_LENGTH),
        tokenizer=TokenizerConfig(vocab_size=VOCABULARY, min_count=3),
        model=parse_classifier_config({"d_model": 128, **model}),
        train=TrainConfig(batch_size=BATCH, device="cpu"),
    )


class Notes(TextClassifier):
    """The classifiers of the notes in torch's layers, of the same size; they read padding."""

    def __init__(self, table: dict[str, Any]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 128)
        self.recurrent = table["kind"] == "recurrent"
        if self.recurrent:
            kind = {"rnn": nn.RNN, "lstm": nn.LSTM}[table["cell"]]
            bidirectional = table.get("bidirectional", False)
            layers = table.get("layers", 1)
            self.layers = kind(128, 64, layers, batch_first=True, bidirectional=bidirectional)
            self.head: nn.Module = nn.Linear(64, 2)
        else:
            first, second = (nn.Conv1d(128, 128, 7, stride=3) for _ in range(2))
            self.layers = nn.Sequential(first, nn.ReLU(), second, nn.ReLU())
            self.head = nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:  # noqa: ARG002
        x = self.embedding(ids)
        if self.recurrent:
            _, state = self.layers(x)
            x = (state[0] if isinstance(state, tuple) else state)[-1]
        else:
            x = self.layers(x.transpose(1, 2)).amax(2)
        scores: Tensor = self.head(x)
        return scores


class Bert(TextClassifier):
    """Hugging Face's encoder in the size of our model."""

    def __init__(self, table: dict[str, Any]) -> None:
        with explain_import_error():
            from transformers import BertConfig, BertForSequenceClassification

        super().__init__()
        dropout = table.get("dropout", 0.0)
        config = BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=table["d_model"],
            num_hidden_layers=table["layers"],
            num_attention_heads=table["heads"],
            intermediate_size=table["d_ff"],
            max_position_embeddings=table["max_positions"],
            hidden_act="relu",
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
            num_labels=2,
            attn_implementation="sdpa",
        )
        self.bert = BertForSequenceClassification(config)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        mask = padding_mask(lengths, ids.shape[1]).long()
        scores: Tensor = self.bert(input_ids=ids, attention_mask=mask).logits
        return scores


def make_models(case: Case) -> dict[str, tuple[ClassificationRecipe, TextClassifier]]:
    """Return new models of the same size by name; the padded one reads padding as a token."""
    recipe = recipe_for(case.model)
    notes = replace(recipe, model=replace(recipe.model, padding="unmasked"))
    models: dict[str, tuple[ClassificationRecipe, TextClassifier]] = {}
    for name, own_recipe in (("workings", recipe), ("padded", notes)):
        torch.manual_seed(0)
        models[name] = own_recipe, build_classifier(own_recipe.model, VOCABULARY, 2)
    if case.model["kind"] != "transformer":
        models["notes"] = notes, Notes(case.model)
    elif find_spec("transformers"):
        for name in ("Hugging Face", "Hugging Face, by length"):
            models[name] = recipe, Bert({"d_model": 128, **case.model})
    return models


def trainer_for(task: Classification, folder: Path) -> Trainer:
    """Return the package's training loop for a task."""
    task.model.train()
    log = Log(folder / "log.jsonl", "quiet")
    return Trainer(task, task.recipe.train, folder, log, task.recipe.seed, task.local_group)


# -- the examples ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """One pool of training texts, and their lengths in tokens."""

    tokenizer: Tokenizer
    splits: Splits
    lengths: Sequence[int]


def draw_sample(examples: Sequence[Example]) -> Sample:
    """Train a tokenizer on all examples; draw one pool of them with a fixed seed."""
    config = recipe_for({}).tokenizer
    words = train_tokenizer(
        config.kind, (e.text for e in examples), config.vocab_size, config.min_count
    )
    order = np.random.RandomState(0).permutation(len(examples))
    chosen_examples = tuple(examples[i] for i in order[: POOL * BATCH])
    lengths = [min(len(words.encode(e.text)), MAX_LENGTH) for e in chosen_examples]
    return Sample(words, Splits("imdb", chosen_examples, (), ()), lengths)


def sample_batches(
    by_length: Sequence[list[int]], lengths: Sequence[int], count: int
) -> list[list[int]]:
    """Return `count` batches at evenly spaced quantiles of length."""
    ordered = sorted(range(len(by_length)), key=lambda k: max(lengths[i] for i in by_length[k]))
    step = len(ordered) / count
    chosen = {ordered[int((k + 0.5) * step)] for k in range(count)}
    return [by_length[k] for k in sorted(chosen)]


def shuffle_batches(chosen: Iterable[list[int]]) -> list[list[int]]:
    """Return the same examples in random batches."""
    indices = sorted(i for batch in chosen for i in batch)
    order = np.random.RandomState(1).permutation(indices).tolist()
    return [order[i : i + BATCH] for i in range(0, len(order), BATCH)]


def count_tokens(
    work: Iterable[list[int]], lengths: Sequence[int], fixed: int | None = None
) -> int:
    """Return the number of tokens in batches, padding included."""
    return sum(len(batch) * (fixed or max(lengths[i] for i in batch)) for batch in work)


# -- measuring -------------------------------------------------------------------------------------


@dataclass
class Measured:
    """The tokens that an implementation read, and the time per example in each round."""

    tokens: int
    wall: list[float] = field(default_factory=list)  # ms
    cpu: list[float] = field(default_factory=list)


def measure(case: Case, sample: Sample, rounds: int) -> dict[str, Measured]:
    """Train all models in turns of a few batches; the order changes."""
    pool = make_batches(sample.lengths, BATCH, seed=0, pool=POOL)
    by_length = sample_batches(pool, sample.lengths, case.batches)
    at_random = shuffle_batches(by_length)
    examples = sum(map(len, by_length))
    trainers: dict[str, Trainer] = {}
    work: dict[str, list[list[int]]] = {}
    measured: dict[str, Measured] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (recipe, model) in make_models(case).items():
            task = Classification(recipe, sample.tokenizer, sample.splits.labels, model)
            task.encode_splits(sample.splits)
            trainers[name] = trainer_for(task, Path(folder))
            work[name] = by_length if name in BY_LENGTH else at_random
            fixed = MAX_LENGTH if name in PADDED else None
            measured[name] = Measured(count_tokens(work[name], sample.lengths, fixed))
            for batch in work[name][: case.warm_up]:
                trainers[name]._step([batch])
        names = list(trainers)
        for number in range(rounds):
            spent = {name: np.zeros(2) for name in names}
            for turn, first in enumerate(range(0, len(by_length), TURN)):
                begin = (number + turn) % len(names)
                for name in names[begin:] + names[:begin]:
                    start = np.array([time.perf_counter(), time.process_time()])
                    for batch in work[name][first : first + TURN]:
                        trainers[name]._step([batch])
                    end = np.array([time.perf_counter(), time.process_time()])
                    spent[name] += end - start
            for name, seconds in spent.items():
                wall, cpu = (seconds / examples * 1e3).tolist()
                measured[name].wall.append(wall)
                measured[name].cpu.append(cpu)
    return measured


def rows_of(name: str, measured: dict[str, Measured]) -> list[dict[str, Any]]:
    """Return a row for each peer: its time, ours, and the ratio."""
    ours = measured["workings"]
    rows = []
    for peer, theirs in measured.items():
        if peer != "workings":
            ratios = [a / b for a, b in zip(theirs.wall, ours.wall, strict=True)]
            cpu_ratios = [a / b for a, b in zip(theirs.cpu, ours.cpu, strict=True)]
            rows.append(
                {
                    "model": name,
                    "peer": peer,
                    "threads": torch.get_num_threads(),
                    "tokens": round(theirs.tokens / ours.tokens, 2),
                    "peer ms": round(statistics.median(theirs.wall), 2),
                    "ours ms": round(statistics.median(ours.wall), 2),
                    "ratio": round(statistics.median(ratios), 2),
                    "lowest": round(min(ratios), 2),
                    "highest": round(max(ratios), 2),
                    "of cpu": round(statistics.median(cpu_ratios), 2),
                    "bar": TARGETS.get(peer),
                }
            )
    return rows


def print_peak(name: str, who: str) -> None:
    """Print the peak memory of a step on 64 texts of 500 tokens, in MiB."""
    recipe, model = make_models(CASES[name])[who]
    words = [f"w{i}" for i in range(VOCABULARY - 3)]
    task = Classification(recipe, WordTokenizer(words), ("neg", "pos"), model)
    texts = [" ".join(np.random.RandomState(i).choice(words, MAX_LENGTH)) for i in range(BATCH)]
    examples = tuple(Example(text, task.labels[i % 2]) for i, text in enumerate(texts))
    task.encode_splits(Splits("random", examples, (), ()))
    with tempfile.TemporaryDirectory() as folder:
        trainer = trainer_for(task, Path(folder))
        trainer._step([[0, 1]])  # warm up
        print(peak_mib(lambda: trainer._step([list(range(BATCH))])))


def measure_memory(names: Iterable[str], threads: int) -> list[dict[str, Any]]:
    """Return the peak memory of a step of each model, each in a separate process."""
    rows = []
    for name in names:
        row: dict[str, Any] = {"model": name}
        for who in ("workings", "Hugging Face"):
            if who in make_models(CASES[name]):
                peak = run_script(__file__, "--peak", name, who, "--threads", str(threads))
                row[f"{who} MiB"] = None if peak == "None" else round(float(peak))
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[NUM_THREADS])
    parser.add_argument("--only", default="", help="only models whose name starts with this")
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads[0])
    if options.peak:
        print_peak(*options.peak)
        return
    if not find_spec("transformers"):
        print("Hugging Face is left out: pip install '.[bench]'", file=sys.stderr)

    sample = draw_sample(load_dataset("imdb", validation=0.0).train)
    rows: list[dict[str, Any]] = []
    chosen = [name for name in CASES if name.startswith(options.only)]
    for threads in options.threads:
        torch.set_num_threads(threads)
        for name in chosen:
            rows += rows_of(name, measure(CASES[name], sample, options.rounds))
            print(f"… {name}, {threads} threads", file=sys.stderr)
    show("Training on IMDB, ms per example; ratio: the peer's time over ours", rows)
    peaks = measure_memory(chosen, options.threads[0])
    show("Peak extra memory of a step on 64 texts of 500 tokens", peaks)
    if options.only:
        return
    result = {
        **environment(),
        "threads": options.threads,
        "threads that the program chooses": NUM_THREADS,
        "transformers": version("transformers") if find_spec("transformers") else None,
        "rounds": options.rounds,
        "batch": BATCH,
        "examples": len(sample.lengths),
        "mean length": round(float(np.mean(sample.lengths)), 1),
        "rows": rows,
        "memory": peaks,
    }
    save("classify", result)


if __name__ == "__main__":
    main()
