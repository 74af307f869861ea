"""What does teacher forcing fail to teach?

Teacher forcing feeds the correct tokens in training; student forcing feeds the model's own. A
recurrent network learns to spell words letter by letter, with one or the other. Then one letter is
replaced by a wrong one: a situation that teacher forcing never shows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.experiments import QUESTIONS
from workings.experiments.base import ExampleSampler, Finding, isolated_rng, train_model
from workings.models.language import build_language_model
from workings.render.chart import Series, line_chart
from workings.render.pictures import Picture, side_by_side

WORDS, LETTERS, LENGTH = 24, 6, 12
WIDTH, LEARNING_RATE = 48, 5e-3
EARLY_STEPS, STEPS = 150, 550
MISTAKE_POSITION = 2  # of the wrong letter, from 0
NUM_TRIALS = 5  # wrong letters sampled for each word


@dataclass(frozen=True)
class SpellingAccuracy:
    """Letter accuracy at each position, by what the model is fed."""

    teacher_forced: Sequence[float]  # the correct letters
    free_running: Sequence[float]  # its own letters
    perturbed: Sequence[float]  # its own letters, one of them replaced by a wrong one


@dataclass(frozen=True)
class ForcingResult:
    """Accuracy of one kind of forcing, after EARLY_STEPS and after STEPS."""

    name: str
    early: SpellingAccuracy
    late: SpellingAccuracy


class Speller(nn.Module):
    """A recurrent language model whose prompt is a word's number and whose output its letters."""

    def __init__(self, student_forcing: bool) -> None:
        super().__init__()
        table = {"kind": "recurrent", "cell": "gru", "d_model": WIDTH, "hidden_size": WIDTH}
        self.model = build_language_model(table, WORDS + LETTERS)
        self.student_forcing = student_forcing

    def forward(self, x: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time tokens"]:
        """Return logits of each letter, given the correct letters or, as a student, its own."""
        if not (self.student_forcing and self.training):
            teacher_forced: Tensor = self.model(x)[0]
            return teacher_forced
        logits, state = self.model.start(x[:, :1])
        all_logits = [logits]
        for _ in range(1, x.shape[1]):
            sampled = logits.detach().softmax(-1).multinomial(1).squeeze(1)
            logits, state = self.model.step(sampled, state)
            all_logits.append(logits)
        return torch.stack(all_logits, 1)

    @torch.no_grad()
    def spell(
        self, letters: Int[Tensor, "words time"], wrong_letters: Int[Tensor, " words"] | None = None
    ) -> list[float]:
        """Spell all words greedily; return the accuracy at each position.

        If given, `wrong_letters` replace the model's letters at MISTAKE_POSITION.
        """
        logits, state = self.model.start(torch.arange(len(letters)).unsqueeze(1))
        spelled = []
        for position in range(letters.shape[1]):
            predicted = logits.argmax(-1)
            if wrong_letters is not None and position == MISTAKE_POSITION:
                predicted = wrong_letters
            spelled.append(predicted)
            logits, state = self.model.step(predicted, state)
        return _accuracy_by_position(torch.stack(spelled, 1), letters)


def _accuracy_by_position(
    predicted: Int[Tensor, "words time"], letters: Int[Tensor, "words time"]
) -> list[float]:
    return (predicted == letters).float().mean(0).tolist()


def make_word_sampler(letters: Int[Tensor, "words time"]) -> ExampleSampler:
    """Return a sampler of words: inputs are number and letters, targets the letters."""

    def sample(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
        numbers = torch.randint(len(letters), (count,), generator=generator)
        targets = letters[numbers]
        return torch.cat([numbers.unsqueeze(1), targets[:, :-1]], 1), targets

    return sample


def measure_spelling(student_forcing: bool, steps: int, seed: int) -> SpellingAccuracy:
    """Train on random words; measure spelling when teacher-forced, free-running and perturbed."""
    generator = torch.Generator().manual_seed(seed)
    letters = torch.randint(LETTERS, (WORDS, LENGTH), generator=generator) + WORDS
    with isolated_rng(seed):
        speller = Speller(student_forcing)
        train_model(
            speller, make_word_sampler(letters), steps=steps, learning_rate=LEARNING_RATE, seed=seed
        )
    speller.eval()
    with torch.no_grad():
        inputs = torch.cat([torch.arange(WORDS).unsqueeze(1), letters[:, :-1]], 1)
        teacher_forced = _accuracy_by_position(speller(inputs).argmax(-1), letters)
    trials = []
    for _ in range(NUM_TRIALS):
        shift = torch.randint(1, LETTERS, (WORDS,), generator=generator)
        wrong = (letters[:, MISTAKE_POSITION] - WORDS + shift) % LETTERS + WORDS
        trials.append(speller.spell(letters, wrong))
    perturbed = [fmean(accuracies) for accuracies in zip(*trials, strict=True)]
    return SpellingAccuracy(teacher_forced, speller.spell(letters), perturbed)


def measure(seed: int = 1) -> tuple[ForcingResult, ForcingResult]:
    """Train with teacher and with student forcing, each for EARLY_STEPS and for STEPS."""
    teacher, student = (
        ForcingResult(
            name,
            *(measure_spelling(name == "student", steps, seed) for steps in (EARLY_STEPS, STEPS)),
        )
        for name in ("teacher", "student")
    )
    return teacher, student


def accuracy_after_mistake(accuracies: Sequence[float]) -> float:
    """Return the mean accuracy after MISTAKE_POSITION."""
    return fmean(accuracies[MISTAKE_POSITION + 1 :])


def answer(seed: int = 1) -> Finding:
    """Describe and draw the measurements."""
    teacher, student = measure(seed)
    lines = (
        f"After {EARLY_STEPS} steps of teacher forcing, {fmean(teacher.early.teacher_forced):.0%} "
        "of the letters are correct if the model is fed the correct ones, and "
        f"{fmean(teacher.early.free_running):.0%} if it is fed its own: exposure bias. With "
        f"student forcing it is {fmean(student.early.teacher_forced):.0%} and "
        f"{fmean(student.early.free_running):.0%}.",
        f"After {STEPS} steps, {fmean(teacher.late.free_running):.0%} and "
        f"{fmean(student.late.free_running):.0%} of their own letters are correct. If one letter "
        "is replaced by a wrong one, of the letters after it "
        f"{accuracy_after_mistake(teacher.late.perturbed):.0%} are correct with teacher forcing, "
        f"{accuracy_after_mistake(student.late.perturbed):.0%} with student forcing (chance: "
        f"{1 / LETTERS:.0%}).",
    )
    rows = [
        (
            f"{result.name}, {steps} steps",
            f"{fmean(accuracy.teacher_forced):.3f}",
            f"{fmean(accuracy.free_running):.3f}",
            f"{accuracy_after_mistake(accuracy.perturbed):.3f}",
        )
        for result in (teacher, student)
        for steps, accuracy in ((EARLY_STEPS, result.early), (STEPS, result.late))
    ]
    return Finding(
        QUESTIONS["forcing"],
        lines,
        "texts with many valid continuations: there student forcing asks for letters that do not "
        "follow from what the model wrote; a model without errors that decodes greedily, and so "
        "never meets a mistake; a Transformer, which with student forcing can no longer process "
        "all positions in parallel.",
        _draw_picture(teacher, student),
        ("forcing", "teacher-forced", "free-running", "after a mistake"),
        rows,
    )


def _draw_picture(teacher: ForcingResult, student: ForcingResult) -> Picture:
    early = _draw_chart(
        f"After {EARLY_STEPS} steps",
        [
            series
            for color, result in enumerate((teacher, student))
            for series in (
                _to_series(f"{result.name}, forced", result.early.teacher_forced, color, True),
                _to_series(f"{result.name}, free", result.early.free_running, color),
            )
        ],
    )
    late = _draw_chart(
        f"After {STEPS} steps, letter {MISTAKE_POSITION + 1} replaced by a wrong one",
        [
            _to_series(result.name, result.late.perturbed, color)
            for color, result in enumerate((teacher, student))
        ],
    )
    return side_by_side([early, late], "Teacher forcing, student forcing and mistakes")


def _to_series(name: str, accuracies: Sequence[float], color: int, dashed: bool = False) -> Series:
    return Series(name, list(enumerate(accuracies, 1)), dashed=dashed, color=color)


def _draw_chart(title: str, series: Sequence[Series]) -> Picture:
    return line_chart(
        series,
        title=title,
        x_label="position in the word",
        y_label="letter accuracy",
        percent=True,
        width=500,
    )
