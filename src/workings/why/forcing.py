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

from workings.models.language import build_language_model
from workings.views.chart import Series, line_chart
from workings.views.panels import side_by_side
from workings.views.picture import Picture
from workings.why import QUESTIONS
from workings.why.finding import Finding
from workings.why.learning import Draw, learn, seeded

WORDS, LETTERS, LENGTH = 24, 6, 12
WIDTH, RATE = 48, 5e-3
EARLY, STEPS = 150, 550
MISTAKE = 2  # the place of the wrong letter, from 0
TRIALS = 5  # wrong letters drawn for each word


@dataclass(frozen=True)
class Spelled:
    """The share of right letters at each place."""

    told: Sequence[float]  # fed the right letters
    alone: Sequence[float]  # fed its own
    misled: Sequence[float]  # fed its own, of which one was replaced by a wrong one


@dataclass(frozen=True)
class Forced:
    """What a way of forcing leads to, soon and in the end."""

    name: str
    early: Spelled
    late: Spelled


class Speller(nn.Module):
    """A recurrent language model whose prompt is a word's number, and that writes its letters."""

    def __init__(self, student: bool) -> None:
        super().__init__()
        table = {"kind": "recurrent", "cell": "gru", "embedding": WIDTH, "hidden": WIDTH}
        self.model = build_language_model(table, WORDS + LETTERS)
        self.student = student

    def forward(self, x: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time tokens"]:
        """Score each letter, fed those before it: the right ones, or a student's own."""
        if not (self.student and self.training):
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
        self, letters: Int[Tensor, "words time"], wrong: Int[Tensor, " words"] | None = None
    ) -> list[float]:
        """Write all words, each letter the likeliest; which are right, at each place?

        A wrong letter, where there is one, takes the place of the model's at MISTAKE.
        """
        scores, state = self.model.start(torch.arange(len(letters)).unsqueeze(1))
        written = []
        for place in range(letters.shape[1]):
            own = wrong if wrong is not None and place == MISTAKE else scores.argmax(-1)
            written.append(own)
            scores, state = self.model.step(own, state)
        return _right(torch.stack(written, 1), letters)


def _right(written: Int[Tensor, "words time"], letters: Int[Tensor, "words time"]) -> list[float]:
    return (written == letters).float().mean(0).tolist()


def some_of(letters: Int[Tensor, "words time"]) -> Draw:
    """Draw words: number and letters in, the letters out."""

    def draw(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
        numbers = torch.randint(len(letters), (count,), generator=generator)
        chosen = letters[numbers]
        return torch.cat([numbers.unsqueeze(1), chosen[:, :-1]], 1), chosen

    return draw


def spelled(student: bool, steps: int, seed: int) -> Spelled:
    """Learn random words by heart; write them told, alone, and misled."""
    generator = torch.Generator().manual_seed(seed)
    letters = torch.randint(LETTERS, (WORDS, LENGTH), generator=generator) + WORDS
    with seeded(seed):
        speller = Speller(student)
        learn(speller, some_of(letters), steps=steps, rate=RATE, seed=seed)
    speller.eval()
    with torch.no_grad():
        inputs = torch.cat([torch.arange(WORDS).unsqueeze(1), letters[:, :-1]], 1)
        told = _right(speller(inputs).argmax(-1), letters)
    trials = []
    for _ in range(TRIALS):
        shift = torch.randint(1, LETTERS, (WORDS,), generator=generator)
        wrong = (letters[:, MISTAKE] - WORDS + shift) % LETTERS + WORDS
        trials.append(speller.spell(letters, wrong))
    misled = [fmean(place) for place in zip(*trials, strict=True)]
    return Spelled(told, speller.spell(letters), misled)


def measure(seed: int = 1) -> tuple[Forced, Forced]:
    """Force as a teacher and as a student, for few steps and for more."""
    teacher, student = (
        Forced(name, *(spelled(name == "student", steps, seed) for steps in (EARLY, STEPS)))
        for name in ("teacher", "student")
    )
    return teacher, student


def after(misled: Sequence[float]) -> float:
    """How many letters are right after the wrong one."""
    return fmean(misled[MISTAKE + 1 :])


def answer(seed: int = 1) -> Finding:
    """Say and draw what was measured."""
    teacher, student = measure(seed)
    lines = (
        f"After {EARLY} steps a network with teacher forcing has "
        f"{fmean(teacher.early.told):.0%} of the letters right while it is fed the right ones, and "
        f"{fmean(teacher.early.alone):.0%} when it is fed its own: exposure bias. With student "
        f"forcing it is {fmean(student.early.told):.0%} and {fmean(student.early.alone):.0%}.",
        f"After {STEPS} steps they write {fmean(teacher.late.alone):.0%} and "
        f"{fmean(student.late.alone):.0%} right by themselves. One wrong letter put in: of those "
        f"after it {after(teacher.late.misled):.0%} are right with teacher forcing, "
        f"{after(student.late.misled):.0%} with student forcing; a guess is right in "
        f"{1 / LETTERS:.0%}.",
    )
    rows = [
        (f"{forced.name}, {steps} steps",
         *(f"{x:.3f}" for x in (fmean(one.told), fmean(one.alone), after(one.misled))))
        for forced in (teacher, student)
        for steps, one in ((EARLY, forced.early), (STEPS, forced.late))
    ]  # fmt: skip
    return Finding(
        QUESTIONS["forcing"],
        lines,
        "texts that could go on in many ways: there a student is asked for letters that need not "
        "follow from what it wrote; a model that never errs and always takes its likeliest letter, "
        "which meets no mistakes; a Transformer, which a student's steps rob of reading everything "
        "at once.",
        _picture(teacher, student),
        ("forcing", "told", "alone", "after a wrong letter"),
        rows,
    )


def _picture(teacher: Forced, student: Forced) -> Picture:
    early = _chart(
        f"After {EARLY} steps",
        [
            Series("teacher, told", _placed(teacher.early.told), dashed=True, colour=0),
            Series("teacher, alone", _placed(teacher.early.alone), colour=0),
            Series("student, told", _placed(student.early.told), dashed=True, colour=1),
            Series("student, alone", _placed(student.early.alone), colour=1),
        ],
    )
    late = _chart(
        f"After {STEPS} steps, letter {MISTAKE + 1} replaced by a wrong one",
        [
            Series("teacher", _placed(teacher.late.misled), colour=0),
            Series("student", _placed(student.late.misled), colour=1),
        ],
    )
    return side_by_side([early, late], "Teacher forcing, student forcing and mistakes")


def _placed(shares: Sequence[float]) -> list[tuple[int, float]]:
    return list(enumerate(shares, 1))


def _chart(title: str, series: Sequence[Series]) -> Picture:
    return line_chart(
        series,
        title=title,
        x_label="place in the word",
        y_label="right letters",
        percent=True,
        width=500,
    )
