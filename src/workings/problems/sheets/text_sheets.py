"""Sheets on scores of texts: BLEU, ROUGE-L and the word error rate."""

from collections import Counter
from random import Random

from workings.languages import gettext, gettext_noop
from workings.problems.problem import Problem
from workings.problems.sheets.sampling import SamplingError
from workings.problems.sheets.sheet_kind import Fields, SheetKind, SheetPlan

_PLACES = (
    ("the", "a", "my"),
    ("cat", "dog", "bird"),
    ("sat", "slept", "sang"),
    ("on", "under", "near"),
    ("the", "a", "my"),
    ("mat", "tree", "house"),
    ("and", "but", "while"),
    ("the", "a", "my"),
)  # the words of a sentence, place by place
_MOVED_SHARE = 0.6  # of the texts that have the end of another before its beginning
_MAX_CHANGED = 2  # words


def _draw_words(rng: Random, count: int) -> list[str]:
    return [rng.choice(words) for words in _PLACES[:count]]


def _change_words(rng: Random, words: list[str], count: int) -> list[str]:
    """Return a text of `count` words that is like another: moved, changed, inserted, left out.

    Without the moves, most of a table of distances is the same for any two texts.
    """
    changed = list(words)
    if rng.random() < _MOVED_SHARE:
        start = rng.randrange(1, len(changed))
        changed = changed[start:] + changed[:start]
    while len(changed) > count:
        del changed[rng.randrange(len(changed))]
    for place in rng.sample(range(len(changed)), rng.randrange(_MAX_CHANGED + 1)):
        changed[place] = rng.choice(rng.choice(_PLACES))
    while len(changed) < count:
        changed.insert(rng.randrange(len(changed) + 1), rng.choice(words))
    return changed


def _is_subsequence(words: list[str], others: list[str]) -> bool:
    remaining = iter(others)
    return all(word in remaining for word in words)


def draw_text_pair(rng: Random, num_first: int, num_second: int) -> tuple[str, str]:
    """Draw two texts of so many words that differ but share at least two words.

    One is not the other with words left out: the tables of such pairs are much alike.
    """
    for _ in range(200):
        first = _draw_words(rng, num_first)
        second = _change_words(rng, first, num_second)
        common = sum((Counter(first) & Counter(second)).values())
        is_shortened = _is_subsequence(first, second) or _is_subsequence(second, first)
        if not is_shortened and 2 <= common < max(len(first), len(second)):
            return " ".join(first), " ".join(second)
    raise SamplingError


def draw_translation(rng: Random, num_reference: int, num_candidate: int) -> tuple[str, str]:
    """Draw a reference and a candidate, which both repeat words: most counts would be 1."""
    vocabulary = {place: rng.choice(place) for place in _PLACES}
    words = [vocabulary[place] for place in _PLACES[:num_reference]]
    candidate = _change_words(rng, words, num_candidate)
    for _ in range(rng.randint(1, _MAX_CHANGED)):
        place, other = rng.sample(range(num_candidate), 2)
        candidate[place] = candidate[other]
    return " ".join(words), " ".join(candidate)


def _draw_bleu(rng: Random, plan: SheetPlan) -> Fields:
    """Draw a candidate that is shorter than its reference and repeats a word."""
    references, candidate = draw_translation(rng, plan.tokens + 1, plan.tokens)
    return {"given": {"candidate": candidate, "references": references, "max_order": plan.width}}


def _has_matches(problem: Problem) -> bool:
    """Return True if every precision is above 0 and below 1, and a count is clipped."""
    exact = problem.exact_matrices
    precisions, counts = exact["precisions"].mid, exact["counts.1"].mid
    is_clipped = ((counts[:, 0] > counts[:, 1]) & (counts[:, 1] > 0)).any()
    return bool((precisions > 0).all() and (precisions < 1).all() and is_clipped)


def _describe_bleu(plan: SheetPlan, problem: Problem) -> list[str]:  # noqa: ARG001
    return [
        gettext(
            "BLEU of 1-grams to {width}-grams, from 0 to 1, without smoothing. c is the "
            "length of the candidate, r that of the reference.",
            width=plan.width,
        )
    ]


def _draw_rouge(rng: Random, plan: SheetPlan) -> Fields:
    reference, candidate = draw_text_pair(rng, plan.tokens, plan.width)
    return {"given": {"candidate": candidate, "reference": reference}}


def _describe_rouge(plan: SheetPlan, problem: Problem) -> list[str]:  # noqa: ARG001
    return [
        gettext(
            "The table has the length of the longest common subsequence of every start of "
            "the reference (rows) and of the candidate (columns), from no words on. f "
            "weights precision and recall alike (β = 1)."
        )
    ]


def _draw_edit(rng: Random, plan: SheetPlan) -> Fields:
    reference, hypothesis = draw_text_pair(rng, plan.tokens, plan.width)
    return {"given": {"reference": reference, "hypothesis": hypothesis}}


def _describe_edit(plan: SheetPlan, problem: Problem) -> list[str]:  # noqa: ARG001
    return [
        gettext(
            "Insertions, deletions and substitutions cost 1 each. The table has the "
            "distance of every start of the reference (rows) from every start of the "
            "hypothesis (columns)."
        )
    ]


def _check_bleu_size(words: int, order: int) -> str:
    return "" if order < words - 1 else "the candidate must have more words than n-grams have"


TEXT_SHEETS = (
    SheetKind(
        name="bleu",
        title=gettext_noop("BLEU of a translation"),
        problem_kind="bleu",
        picture=gettext_noop(
            "n-grams → clipped counts → precisions → geometric mean · brevity penalty"
        ),
        draw=_draw_bleu,
        describe=_describe_bleu,
        is_suitable=_has_matches,
        sizes=((5, 2), (6, 2), (7, 3)),
        min_size=(4, 2),
        max_size=(7, 3),
        size_names=("words", "order"),
        size_text=gettext_noop("{tokens} words, n-grams up to {width}"),
        check_size=_check_bleu_size,
        sentence="none",
        takes_any_numbers=False,
    ),
    SheetKind(
        name="rouge_l",
        title=gettext_noop("ROUGE-L of a summary"),
        problem_kind="rouge_l",
        picture=gettext_noop("table → longest common subsequence → precision, recall → F"),
        draw=_draw_rouge,
        describe=_describe_rouge,
        sizes=((4, 3), (5, 4), (6, 5)),
        min_size=(3, 3),
        max_size=(8, 7),
        size_names=("words of the reference", "words of the candidate"),
        size_text=gettext_noop("{tokens} and {width} words"),
        sentence="none",
        takes_any_numbers=False,
    ),
    SheetKind(
        name="edit_distance",
        title=gettext_noop("Edit distance and word error rate"),
        problem_kind="edit_distance",
        picture=gettext_noop("table → distance → ÷ words of the reference"),
        draw=_draw_edit,
        describe=_describe_edit,
        sizes=((4, 3), (5, 4), (6, 5)),
        min_size=(3, 3),
        max_size=(8, 7),
        size_names=("words of the reference", "words of the hypothesis"),
        size_text=gettext_noop("{tokens} and {width} words"),
        sentence="none",
        takes_any_numbers=False,
    ),
)
