"""Translators on the same sentences: how good each is, where it fails, and whether that is luck."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from workings.data.pairs import Pair, pair_set_names
from workings.errors import UserError
from workings.scores import measures
from workings.scores.bleu import Scores, score
from workings.scores.bootstrap import Comparison, compare
from workings.scores.by_length import Bucket, by_length
from workings.tasks.translate import Translating
from workings.views.picture import Picture


@dataclass(frozen=True)
class Verdict:
    """One translator: its scores, these by length of the source, and it against the first one."""

    name: str
    scores: Scores
    buckets: Sequence[Bucket]
    against_first: Comparison | None
    learned: int | None = 0
    """how many of these sentences' pairs it was trained on; None: its data are not there"""


@dataclass(frozen=True)
class Judged:
    """All of them, in the order in which they were given."""

    data: str
    sentences: int
    verdicts: Sequence[Verdict]

    def to_table(self) -> dict[str, Any]:
        """Take it apart into what JSON can hold."""
        return asdict(self)

    def to_text(self, *, width: int | None = None, color: bool = False) -> str:  # noqa: ARG002
        """Write it for a terminal."""
        from workings.views import judged

        return judged.text(self.to_table())

    def to_picture(self) -> Picture:
        """Draw BLEU by the length of the source: who has a bottleneck falls."""
        from workings.views import judged

        return judged.picture(self.to_table())

    def to_html(self) -> str:
        """Write it as one HTML file that needs nothing else."""
        from workings.views import judged

        return judged.page(self.to_table())


def judge(tasks: Mapping[str, Translating], data: str | None = None) -> Judged:
    """Let translators translate the same sentences: what the first one held out, or other data.

    Where one of them knows no capitals, none are looked at.
    """
    ways = {(task.recipe.data.source, task.recipe.data.target) for task in tasks.values()}
    ways = {way for way in ways if not all(map(str.isdecimal, way))}  # columns, of any language
    if len(ways) > 1:
        told = ", ".join(sorted(f"{a} → {b}" for a, b in ways))
        raise UserError(f"these translate different languages ({told}): they cannot be compared")
    first = next(iter(tasks.values()))
    pairs: tuple[Pair, ...] = first.test_pairs(data)
    for name, task in tasks.items():
        theirs = task.recipe.data.set
        same = theirs == (data or first.recipe.data.set) and (not data or data in pair_set_names())
        if same and task is not first and set(task.test_pairs()) != set(pairs):
            raise UserError(
                f"{name} held out other sentences of {theirs} than the first run, "
                "and may have learned from these: --data FILE, of pairs that nobody has seen"
            )
    sources, references = [p.source for p in pairs], [p.target for p in pairs]
    lower = any(task.words.lower for task in tasks.values())
    measure = measures.bleu(lowercase=lower)
    by_buckets = measures.bleu(lowercase=lower, short=True)
    written = {name: list(task.best(sources)) for name, task in tasks.items()}
    baseline = next(iter(written.values()))
    verdicts = [
        Verdict(
            name,
            score(texts, references, lowercase=lower),
            by_length(sources, texts, references, measure=by_buckets),
            None if k == 0 else compare(baseline, texts, references, measure=measure),
            _learned(tasks[name], pairs),
        )
        for k, (name, texts) in enumerate(written.items())
    ]
    return Judged(data or first.recipe.data.set, len(pairs), verdicts)


def _learned(task: Translating, pairs: Sequence[Pair]) -> int | None:
    """Count the pairs that a translator was trained on; None where its data are no longer there."""
    try:
        learned = set(task.learned_from())
    except UserError:
        return None
    return sum(pair in learned for pair in pairs)
