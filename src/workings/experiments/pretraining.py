"""What does a language model teach a classifier?

Sentences of four made-up languages have the same symbols, each equally often: only the order tells
the languages apart. A recurrent network learns which language a sentence is in, from a few labeled
sentences; once with new weights, and once after it was trained, without labels, to predict the next
symbol.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.experiments import QUESTIONS
from workings.experiments.base import (
    ExampleSampler,
    Finding,
    isolated_rng,
    measure_accuracy,
    train_model,
)
from workings.models.classifiers import LanguageModelClassifier
from workings.models.language import build_language_model
from workings.render.chart import Series, line_chart
from workings.render.pictures import side_by_side
from workings.render.svg_writer import Point

LANGUAGES, SYMBOLS, LENGTH = 4, 12, 24
NUM_SUCCESSORS = 3  # of each symbol, in each language
NOISE = 0.1  # probability of a symbol that is drawn from all
BODY = {"kind": "recurrent", "cell": "gru", "d_model": 16, "hidden_size": 48}
LABELS = (1, 2, 4, 8, 16, 64)  # labeled sentences of each language
FEW_LABELS = 2
PRETRAINING_STEPS = (0, 50, 100, 200, 400, 600)
STEPS, DRAWS = 60, 3  # of the training with labels; sets of labeled sentences
LEARNING_RATE, FINE_TUNING_RATE = 5e-3, 2e-3  # the better one of these two for each


@dataclass(frozen=True)
class PretrainingMeasurements:
    """Accuracies on new sentences: by labels, and by steps of pretraining with few labels."""

    new: Sequence[Point]
    pretrained: Sequence[Point]
    by_steps: Sequence[Point]
    losses: Sequence[Point]  # of the language model, in nats per symbol


def make_languages(seed: int) -> Float[Tensor, "languages symbols symbols"]:
    """Return the probabilities of the next symbol in each language.

    They are means of permutation matrices, so that all symbols are equally frequent.
    """
    generator = torch.Generator().manual_seed(seed)
    tables = torch.full((LANGUAGES, SYMBOLS, SYMBOLS), NOISE / SYMBOLS)
    for table in tables:
        for _ in range(NUM_SUCCESSORS):
            successors = torch.randperm(SYMBOLS, generator=generator)
            table[torch.arange(SYMBOLS), successors] += (1 - NOISE) / NUM_SUCCESSORS
    return tables


def sample_sentences(
    tables: Float[Tensor, "languages symbols symbols"],
    languages: Int[Tensor, " sentences"],
    generator: torch.Generator,
    length: int = LENGTH,
) -> Int[Tensor, "sentences time"]:
    """Return a sentence in each of the languages."""
    symbols = [torch.randint(SYMBOLS, languages.shape, generator=generator)]
    while len(symbols) < length:
        rows = tables[languages, symbols[-1]]
        symbols.append(torch.multinomial(rows, 1, generator=generator).squeeze(1))
    return torch.stack(symbols, 1)


class NextSymbol(nn.Module):
    """A language model of symbols."""

    def __init__(self) -> None:
        super().__init__()
        self.language_model = build_language_model(BODY, SYMBOLS)

    def forward(self, x: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time symbols"]:
        """Return the logits of the next symbol at every position."""
        logits: Tensor = self.language_model(x)[0]
        return logits


class SentenceClassifier(nn.Module):
    """The body of the language model, pooled, and an output layer of its own."""

    def __init__(self, start: NextSymbol | None) -> None:
        super().__init__()
        self.classifier = LanguageModelClassifier(SYMBOLS, LANGUAGES, body=BODY, pooling="concat")
        if start is not None:
            weights = start.language_model.state_dict()
            own = self.classifier.body.state_dict()
            self.classifier.body.load_state_dict({name: weights[name] for name in own})

    def forward(self, x: Int[Tensor, "batch time"]) -> Float[Tensor, "batch languages"]:
        """Return the logits of the languages."""
        logits: Tensor = self.classifier(x, torch.full((len(x),), x.shape[1]))
        return logits


def measure_with_labels(
    tables: Float[Tensor, "languages symbols symbols"],
    start: NextSymbol | None,
    count: int,
    seed: int,
    draws: int = DRAWS,
) -> float:
    """Train on `count` labeled sentences per language; return the mean accuracy on new ones."""

    def sample_new(generator: torch.Generator, size: int) -> tuple[Tensor, Tensor]:
        languages = torch.randint(LANGUAGES, (size,), generator=generator)
        return sample_sentences(tables, languages, generator), languages

    total = 0.0
    for draw in range(draws):
        generator = torch.Generator().manual_seed(100 * seed + draw)
        labels = torch.arange(LANGUAGES).repeat(count)
        sentences = sample_sentences(tables, labels, generator)

        def sample(
            generator: torch.Generator,
            size: int,
            sentences: Tensor = sentences,
            labels: Tensor = labels,
        ) -> tuple[Tensor, Tensor]:
            rows = torch.randint(len(labels), (min(size, len(labels)),), generator=generator)
            return sentences[rows], labels[rows]

        with isolated_rng(seed + draw):
            model = SentenceClassifier(start)
        rate = FINE_TUNING_RATE if start else LEARNING_RATE
        train_model(model, sample, steps=STEPS, learning_rate=rate, seed=seed)
        total += measure_accuracy(model, sample_new)
    return total / draws


def measure(
    seed: int = 1, *, labels: Sequence[int] = LABELS, draws: int = DRAWS
) -> PretrainingMeasurements:
    """Measure accuracies with new and with pretrained weights."""
    tables = make_languages(seed)

    def sample_unlabeled(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
        languages = torch.randint(LANGUAGES, (count,), generator=generator)
        sentences = sample_sentences(tables, languages, generator, LENGTH + 1)
        return sentences[:, :-1], sentences[:, 1:]

    with isolated_rng(seed):
        model = NextSymbol()
    by_steps, losses = [], []
    for before, after in zip((0, *PRETRAINING_STEPS), PRETRAINING_STEPS, strict=False):
        curve = _pretrain(model, sample_unlabeled, after - before, seed + after)
        accuracy = measure_with_labels(tables, model if after else None, FEW_LABELS, seed, draws)
        by_steps.append((after, accuracy))
        losses += [(after, sum(curve[-20:]) / 20)] if curve else []
    return PretrainingMeasurements(
        [(n, measure_with_labels(tables, None, n, seed, draws)) for n in labels],
        [(n, measure_with_labels(tables, model, n, seed, draws)) for n in labels],
        by_steps,
        losses,
    )


def _pretrain(model: NextSymbol, sampler: ExampleSampler, steps: int, seed: int) -> list[float]:
    return train_model(model, sampler, steps=steps, learning_rate=LEARNING_RATE, seed=seed)


def answer(seed: int = 1) -> Finding:
    """Describe and draw the measurements."""
    measured = measure(seed)
    few = LABELS.index(FEW_LABELS)
    (_, new), (_, pretrained) = measured.new[few], measured.pretrained[few]
    enough = next((n for n, accuracy in measured.new if accuracy >= pretrained), None)
    steps = PRETRAINING_STEPS[-1]
    as_good = f"needs {enough} labels" if enough else f"does not get there with {LABELS[-1]} labels"
    lines = (
        f"With {FEW_LABELS} labeled sentences per language, new weights name the language of "
        f"{new:.0%} of new sentences, and pretrained ones of {pretrained:.0%}; a quarter would be "
        f"chance. A network with new weights {as_good} per language for as much.",
        f"Nobody told the language model that there are {LANGUAGES} languages. But the next symbol "
        "depends on the language, so its states have to tell them apart: its loss falls from "
        f"{measured.losses[0][1]:.2f} nats per symbol after {measured.losses[0][0]} steps to "
        f"{measured.losses[-1][1]:.2f} after {steps}, and the accuracy with {FEW_LABELS} labels "
        f"rises with it, from {measured.by_steps[0][1]:.0%} to {measured.by_steps[-1][1]:.0%}. The "
        "labels only have to name what is there already.",
    )
    by_labels = line_chart(
        [Series("pretrained", measured.pretrained), Series("new weights", measured.new)],
        title="Accuracy by labels",
        x_label="labeled sentences per language",
        y_label="accuracy on new sentences",
        log_x=True,
        width=440,
    )
    by_steps = line_chart(
        [Series(f"{FEW_LABELS} labels per language", measured.by_steps)],
        title="Accuracy by pretraining",
        x_label="steps of the language model",
        y_label="accuracy on new sentences",
        width=440,
    )
    rows = [
        *(
            (f"{n} labels", f"{a:.1%}", f"{b:.1%}")
            for (n, a), (_, b) in zip(measured.new, measured.pretrained, strict=True)
        ),
        *((f"{n} steps, {FEW_LABELS} labels", "", f"{a:.1%}") for n, a in measured.by_steps),
    ]
    return Finding(
        QUESTIONS["pretraining"],
        lines,
        "so many labels that both end at the same accuracy; a class on which the next symbol "
        "does not depend, of which a language model learns nothing; unlabeled sentences of other "
        "languages than the labeled ones.",
        side_by_side([by_labels, by_steps], "A language model as the start of a classifier"),
        ("training", "new weights", "pretrained"),
        rows,
    )
