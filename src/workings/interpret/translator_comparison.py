"""Translators on the same sentences: how good each is, where it fails, and whether that is luck."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from workings.data.parallel import SentencePair, list_parallel_datasets
from workings.errors import UserError
from workings.metrics import bleu
from workings.metrics.bleu import CorpusScores, score_translations
from workings.metrics.bootstrap import Comparison, compare_systems
from workings.metrics.by_length import LengthBucket, score_by_length
from workings.render.picture import Picture
from workings.tasks.translation import Translation


@dataclass(frozen=True)
class TranslatorScores:
    """One translator: its scores, these by length of the source, and it against the first one."""

    name: str
    scores: CorpusScores
    buckets: Sequence[LengthBucket]
    against_first: Comparison | None
    training_overlap: int | None = 0
    """how many of these sentences' pairs it was trained on; None: its data are not there"""


@dataclass(frozen=True)
class TranslatorComparison:
    """All of them, in the order in which they were given."""

    data: str
    num_sentences: int
    translators: Sequence[TranslatorScores]

    def to_dict(self) -> dict[str, Any]:
        """Take it apart into what JSON can hold."""
        return asdict(self)

    def to_text(self, *, width: int | None = None, color: bool = False) -> str:  # noqa: ARG002
        """Write it for a terminal."""
        from workings.render import comparison

        return comparison.render_translators_text(self.to_dict())

    def to_picture(self) -> Picture:
        """Draw BLEU by the length of the source: who has a bottleneck falls."""
        from workings.render import comparison

        return comparison.render_translators_picture(self.to_dict())

    def to_html(self) -> str:
        """Write it as one HTML file that needs nothing else."""
        from workings.render import comparison

        return comparison.render_translators_page(self.to_dict())


def compare_translators(
    tasks: Mapping[str, Translation], data: str | None = None
) -> TranslatorComparison:
    """Let translators translate the same sentences: what the first one held out, or other data.

    Where one of them knows no capitals, none are looked at.
    """
    ways = {(task.recipe.data.source, task.recipe.data.target) for task in tasks.values()}
    ways = {way for way in ways if not all(map(str.isdecimal, way))}  # columns, of any language
    if len(ways) > 1:
        told = ", ".join(sorted(f"{a} → {b}" for a, b in ways))
        raise UserError(f"these translate different languages ({told}): they cannot be compared")
    first = next(iter(tasks.values()))
    pairs: tuple[SentencePair, ...] = first.load_test_pairs(data)
    for name, task in tasks.items():
        theirs = task.recipe.data.set
        same = theirs == (data or first.recipe.data.set) and (
            not data or data in list_parallel_datasets()
        )
        if same and task is not first and set(task.load_test_pairs()) != set(pairs):
            raise UserError(
                f"{name} held out other sentences of {theirs} than the first run, "
                "and may have learned from these: --data FILE, of pairs that nobody has seen"
            )
    sources, references = [p.source for p in pairs], [p.target for p in pairs]
    lower = any(task.tokenizers.lower for task in tasks.values())
    measure = bleu.bleu_metric(lowercase=lower)
    by_buckets = bleu.bleu_metric(lowercase=lower, effective_order=True)
    written = {name: list(task.translate_best(sources)) for name, task in tasks.items()}
    baseline = next(iter(written.values()))
    verdicts = [
        TranslatorScores(
            name,
            score_translations(texts, references, lowercase=lower),
            score_by_length(sources, texts, references, metric=by_buckets),
            None if k == 0 else compare_systems(baseline, texts, references, metric=measure),
            _count_training_overlap(tasks[name], pairs),
        )
        for k, (name, texts) in enumerate(written.items())
    ]
    return TranslatorComparison(data or first.recipe.data.set, len(pairs), verdicts)


def _count_training_overlap(task: Translation, pairs: Sequence[SentencePair]) -> int | None:
    """Count the pairs that a translator was trained on; None where its data are no longer there."""
    try:
        learned = set(task.load_train_pairs())
    except UserError:
        return None
    return sum(pair in learned for pair in pairs)
