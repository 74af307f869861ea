import sys
from collections import Counter

import pytest

from workings.data import Splits, find_text_overlap, load_dataset, load_emoji_languages
from workings.data.datasets import LANGUAGES, emoji_family
from workings.data.datasets import _collect_emoji_names as names
from workings.data.splits import hash_to_unit_interval
from workings.errors import UserError


@pytest.fixture(scope="module")
def splits() -> Splits:
    return load_emoji_languages()


def test_a_dozen_languages_and_thousands_of_strings(splits: Splits) -> None:
    assert splits.labels == tuple(sorted(LANGUAGES.values()))
    assert len(splits.train) > 15_000
    assert min(len(splits.validation), len(splits.test)) > 1_500
    for part in (splits.train, splits.validation, splits.test):
        counts = Counter(e.label for e in part)
        assert min(counts.values()) > 0.7 * max(counts.values())


def test_the_texts_are_words(splits: Splits) -> None:
    texts = [e.text for part in (splits.train, splits.validation, splits.test) for e in part]
    assert len(texts) == len(set(texts))
    for text in texts:
        assert text == text.strip().lower()
        assert not set(text) & set(":_")
        assert "  " not in text
        assert text


def test_nothing_leaks(splits: Splits) -> None:
    parts = (splits.train, splits.validation, splits.test)
    for one in range(3):
        for other in range(one):
            assert not find_text_overlap(parts[one], parts[other]).texts
    places = {example: part for part, examples in enumerate(parts) for example in examples}
    families: dict[str, set[int]] = {}
    for character, example in names():
        families.setdefault(emoji_family(character), set()).add(places[example])
    assert {len(where) for where in families.values()} == {1}


def test_variants_stay_together() -> None:
    assert emoji_family("🏃") == emoji_family("🏃‍♂️") == emoji_family("🏃‍♀️") == emoji_family("🏃‍♀️‍➡️")
    assert hash_to_unit_interval(emoji_family("👨‍🚀")) == hash_to_unit_interval(
        emoji_family("👩‍🚀")
    )


def test_no_skin_tones() -> None:
    assert not [c for c, _ in names() if any("\U0001f3fb" <= x <= "\U0001f3ff" for x in c)]


def test_by_name_and_always_the_same(splits: Splits) -> None:
    assert load_dataset("emoji-languages") == splits


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "emoji", None)
    with pytest.raises(UserError, match=r'emoji-languages needs emoji: .* "workings\[data\]"'):
        load_emoji_languages()
