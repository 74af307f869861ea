"""What does a model miss that is never fed its own mistakes?

Teacher forcing feeds the right tokens in training, student forcing the model's own. A network
learns to spell words by heart, one letter after the other, either way. Then one letter is replaced
by a wrong one, which the first has never seen happen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.experiments import QUESTIONS
from workings.experiments.finding import Finding
from workings.experiments.toy_training import ExampleSampler, isolated_rng, train_model
from workings.models.language import build_language_model
from workings.render.chart import Series, line_chart
from workings.render.pictures import Picture, side_by_side

WORDS, LETTERS, LENGTH = 24, 6, 12
WIDTH, LEARNING_RATE = 48, 5e-3
EARLY_STEPS, STEPS = 150, 550
MISTAKE_POSITION = 2  # the place of the wrong letter, from 0
NUM_TRIALS = 5  # wrong letters drawn for each word


@dataclass(frozen=True)
class SpellingAccuracy:
    """The share of right letters at each place."""

    teacher_forced: Sequence[float]  # fed the right letters
    free_running: Sequence[float]  # fed its own
    perturbed: Sequence[float]  # fed its own, of which one was replaced by a wrong one


@dataclass(frozen=True)
class ForcingResult:
    """What a way of forcing leads to, soon and in the end."""

    name: str
    early: SpellingAccuracy
    late: SpellingAccuracy


class Speller(nn.Module):
    """A recurrent language model whose prompt is a word's number, and that writes its letters."""

    def __init__(self, student_forcing: bool) -> None:
        super().__init__()
        table = {"kind": "recurrent", "cell": "gru", "d_model": WIDTH, "hidden_size": WIDTH}
        self.model = build_language_model(table, WORDS + LETTERS)
        self.student_forcing = student_forcing

    def forward(self, x: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time tokens"]:
        """Score each letter, fed those before it: the right ones, or a student's own."""
        if not (self.student_forcing and self.training):
            told: Tensor = self.model(x)[0]
            return told
        scores, state = self.model.start(x[:, :1])
        all_scores = [scores]
        for _ in range(1, x.shape[1]):
            own = scores.detach().softmax(-1).multinomial(1).squeeze(1)
            scores, state = self.model.step(own, state)
            all_scores.append(scores)
        return torch.stack(all_scores, 1)

    @torch.no_grad()
    def spell(
        self, letters: Int[Tensor, "words time"], wrong_letters: Int[Tensor, " words"] | None = None
    ) -> list[float]:
        """Write all words, each letter the likeliest; which are right, at each place?

        A wrong letter, where there is one, takes the place of the model's at MISTAKE.
        """
        scores, state = self.model.start(torch.arange(len(letters)).unsqueeze(1))
        written = []
        for place in range(letters.shape[1]):
            own = (
                wrong_letters
                if wrong_letters is not None and place == MISTAKE_POSITION
                else scores.argmax(-1)
            )
            written.append(own)
            scores, state = self.model.step(own, state)
        return _accuracy_by_position(torch.stack(written, 1), letters)


def _accuracy_by_position(
    predicted: Int[Tensor, "words time"], letters: Int[Tensor, "words time"]
) -> list[float]:
    return (predicted == letters).float().mean(0).tolist()


def make_word_sampler(letters: Int[Tensor, "words time"]) -> ExampleSampler:
    """Draw words: number and letters in, the letters out."""

    def draw(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
        numbers = torch.randint(len(letters), (count,), generator=generator)
        chosen = letters[numbers]
        return torch.cat([numbers.unsqueeze(1), chosen[:, :-1]], 1), chosen

    return draw


def measure_spelling(student_forcing: bool, steps: int, seed: int) -> SpellingAccuracy:
    """Learn random words by heart; write them told, alone, and misled."""
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
        told = _accuracy_by_position(speller(inputs).argmax(-1), letters)
    trials = []
    for _ in range(NUM_TRIALS):
        shift = torch.randint(1, LETTERS, (WORDS,), generator=generator)
        wrong = (letters[:, MISTAKE_POSITION] - WORDS + shift) % LETTERS + WORDS
        trials.append(speller.spell(letters, wrong))
    misled = [fmean(place) for place in zip(*trials, strict=True)]
    return SpellingAccuracy(told, speller.spell(letters), misled)


def measure(seed: int = 1) -> tuple[ForcingResult, ForcingResult]:
    """Force as a teacher and as a student, for few steps and for more."""
    teacher, student = (
        ForcingResult(
            name,
            *(measure_spelling(name == "student", steps, seed) for steps in (EARLY_STEPS, STEPS)),
        )
        for name in ("teacher", "student")
    )
    return teacher, student


def accuracy_after_mistake(accuracies: Sequence[float]) -> float:
    """How many letters are right after the wrong one."""
    return fmean(accuracies[MISTAKE_POSITION + 1 :])


def answer(seed: int = 1) -> Finding:
    """Say and draw what was measured."""
    teacher, student = measure(seed)
    lines = (
        f"After {EARLY_STEPS} steps a network with teacher forcing has "
        f"{fmean(teacher.early.teacher_forced):.0%} of the letters right while it is fed the right ones, and "
        f"{fmean(teacher.early.free_running):.0%} when it is fed its own: exposure bias. With student "
        f"forcing it is {fmean(student.early.teacher_forced):.0%} and {fmean(student.early.free_running):.0%}.",
        f"After {STEPS} steps they write {fmean(teacher.late.free_running):.0%} and "
        f"{fmean(student.late.free_running):.0%} right by themselves. One wrong letter put in: of those "
        f"after it {accuracy_after_mistake(teacher.late.perturbed):.0%} are right with teacher forcing, "
        f"{accuracy_after_mistake(student.late.perturbed):.0%} with student forcing; a guess is right in "
        f"{1 / LETTERS:.0%}.",
    )
    rows = [
        (f"{forced.name}, {steps} steps",
         *(f"{x:.3f}" for x in (fmean(one.teacher_forced), fmean(one.free_running), accuracy_after_mistake(one.perturbed))))
        for forced in (teacher, student)
        for steps, one in ((EARLY_STEPS, forced.early), (STEPS, forced.late))
    ]  # fmt: skip
    return Finding(
        QUESTIONS["forcing"],
        lines,
        "texts that could go on in many ways: there a student is asked for letters that need not "
        "follow from what it wrote; a model that never errs and always takes its likeliest letter, "
        "which meets no mistakes; a Transformer, which a student's steps rob of reading everything "
        "at once.",
        _draw_picture(teacher, student),
        ("forcing", "told", "alone", "after a wrong letter"),
        rows,
    )


def _draw_picture(teacher: ForcingResult, student: ForcingResult) -> Picture:
    early = _draw_chart(
        f"After {EARLY_STEPS} steps",
        [
            Series(
                "teacher, told", _number_points(teacher.early.teacher_forced), dashed=True, color=0
            ),
            Series("teacher, alone", _number_points(teacher.early.free_running), color=0),
            Series(
                "student, told", _number_points(student.early.teacher_forced), dashed=True, color=1
            ),
            Series("student, alone", _number_points(student.early.free_running), color=1),
        ],
    )
    late = _draw_chart(
        f"After {STEPS} steps, letter {MISTAKE_POSITION + 1} replaced by a wrong one",
        [
            Series("teacher", _number_points(teacher.late.perturbed), color=0),
            Series("student", _number_points(student.late.perturbed), color=1),
        ],
    )
    return side_by_side([early, late], "Teacher forcing, student forcing and mistakes")


def _number_points(shares: Sequence[float]) -> list[tuple[int, float]]:
    return list(enumerate(shares, 1))


def _draw_chart(title: str, series: Sequence[Series]) -> Picture:
    return line_chart(
        series,
        title=title,
        x_label="place in the word",
        y_label="right letters",
        percent=True,
        width=500,
    )
