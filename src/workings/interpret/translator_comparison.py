"""Translators on the same sentences: how good each is, where it fails, and whether that is luck."""

from collections.abc import Mapping, Sequence

from workings.data.parallel import SentencePair, list_parallel_datasets
from workings.errors import UserError
from workings.interpret.results import TranslatorComparison, TranslatorScores
from workings.metrics import bleu
from workings.metrics.bleu import score_translations
from workings.metrics.bootstrap import compare_systems
from workings.metrics.by_length import score_by_length
from workings.tasks.translation import Translation


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
