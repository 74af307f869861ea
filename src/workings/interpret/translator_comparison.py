"""Several translators scored on the same sentences, with significance tests."""

from collections.abc import Iterable, Mapping, Sequence

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
    """Score translators on the same sentences: the first one's test data, or other `data`.

    If one of them is lowercase only, case is ignored.
    """
    _check_languages(tasks.values())
    first = next(iter(tasks.values()))
    pairs: tuple[SentencePair, ...] = first.load_test_pairs(data)
    _check_test_pairs(tasks, data, pairs)
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    lowercase = any(task.tokenizers.lower for task in tasks.values())
    metric = bleu.bleu_metric(lowercase=lowercase)
    # Buckets are small: an n-gram order without any match must not make BLEU zero.
    bucket_metric = bleu.bleu_metric(lowercase=lowercase, effective_order=True)
    translations = {name: list(task.translate_best(sources)) for name, task in tasks.items()}
    baseline = next(iter(translations.values()))
    scores = [
        TranslatorScores(
            name,
            score_translations(texts, references, lowercase=lowercase),
            score_by_length(sources, texts, references, metric=bucket_metric),
            None if k == 0 else compare_systems(baseline, texts, references, metric=metric),
            _count_training_overlap(tasks[name], pairs),
        )
        for k, (name, texts) in enumerate(translations.items())
    ]
    return TranslatorComparison(data or first.recipe.data.set, len(pairs), scores)


def _check_languages(tasks: Iterable[Translation]) -> None:
    """Raise UserError if the translators have different source or target languages."""
    directions = {(task.recipe.data.source, task.recipe.data.target) for task in tasks}
    # Numbers are columns of a file, whose language is not known.
    known = {direction for direction in directions if not all(map(str.isdecimal, direction))}
    if len(known) > 1:
        names = ", ".join(sorted(f"{source} → {target}" for source, target in known))
        raise UserError(f"the translators have different languages ({names}): expected the same")


def _check_test_pairs(
    tasks: Mapping[str, Translation], data: str | None, pairs: Sequence[SentencePair]
) -> None:
    """Raise UserError if a translator of the same corpus has other test pairs than the first."""
    first = next(iter(tasks.values()))
    if data and data not in list_parallel_datasets():
        return  # a file: it has no split
    corpus = data or first.recipe.data.set
    for name, task in tasks.items():
        is_same_corpus = task is not first and task.recipe.data.set == corpus
        if is_same_corpus and set(task.load_test_pairs()) != set(pairs):
            raise UserError(
                f"{name} has other test sentences of {corpus} than the first run, and may have "
                "been trained on these: --data FILE scores on a file of unseen pairs"
            )


def _count_training_overlap(task: Translation, pairs: Sequence[SentencePair]) -> int | None:
    """Return how many pairs a translator was trained on; None if its data are not available."""
    try:
        train_pairs = set(task.load_train_pairs())
    except UserError:
        return None
    return sum(pair in train_pairs for pair in pairs)
