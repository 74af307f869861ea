import dataclasses
import gzip
import hashlib
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import emoji
import pytest

from workings.data import (
    PairSplits,
    SentencePair,
    list_parallel_datasets,
    load_pair_split,
    load_pairs,
)
from workings.data.datasets import SKIN_TONES, clean_emoji_name, emoji_family
from workings.data.download import Mirror, matches_any_mirror
from workings.data.parallel import PARALLEL_DATASETS, load_emoji_names, load_test_pairs
from workings.data.parallel import _collect_name_pairs as emoji_pairs
from workings.data.parallel_splits import pair_keys
from workings.errors import UserError


def parts_of(splits: PairSplits) -> tuple[tuple[SentencePair, ...], ...]:
    return splits.train, splits.validation, splits.test


def shared(splits: PairSplits) -> set[tuple[str, str]]:
    """The sentences that stand in two parts."""
    sentences = [{key for pair in part for key in pair_keys(pair)} for part in parts_of(splits)]
    return {key for one, other in combinations(sentences, 2) for key in one & other}


# -- emoji -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "target"), [("en", "fr"), ("de", "zh"), ("ja", "ar")])
def test_names_of_emoji(source: str, target: str) -> None:
    splits = load_pairs("emoji-names", source=source, target=target, allow_download=False)
    assert len(splits.train) > 3000
    assert min(len(splits.validation), len(splits.test)) > 70
    assert splits.filter_stats.num_kept == len(splits.train)
    assert not shared(splits)
    pairs = [pair for part in parts_of(splits) for pair in part]
    assert len(pairs) == len(set(pairs))
    assert splits == load_pairs("emoji-names", source=source, target=target)
    assert splits != load_pairs("emoji-names", source=source, target=target, seed=1)


def test_the_names_are_translations() -> None:
    splits = load_pairs("emoji-names", source="en", target="fr", validation=0.1, test=0.1)
    pairs = {pair for part in parts_of(splits) for pair in part}
    assert (
        SentencePair("grinning face with big eyes", "visage souriant avec de grands yeux") in pairs
    )
    assert not [p for p in pairs if "drapeau" in p.target and "flag" not in p.source]
    back = load_pairs("emoji-names", source="fr", target="en", validation=0.1, test=0.1)
    assert len(back.test) == len(splits.test)


def test_variants_of_an_emoji_stay_together() -> None:
    parts = load_emoji_names("en", "fr", validation=0.2, test=0.2)
    place = {pair: part for part, pairs in parts.items() for pair in pairs}
    families: dict[str, set[str]] = {}
    for character, data in emoji.EMOJI_DATA.items():
        pair = SentencePair(clean_emoji_name(data["en"]), clean_emoji_name(data.get("fr", "")))
        if pair in place:
            bare = "".join(c for c in character if c not in SKIN_TONES)
            families.setdefault(emoji_family(bare), set()).add(place[pair])
    assert len(families) > 1000
    assert {len(where) for where in families.values()} == {1}
    assert not any("skin tone" in p.source for p in (*parts["validation"], *parts["test"]))
    assert sum("skin tone" in p.source for p in parts["train"]) > 500


def test_couples_of_two_tones_are_with_those_of_none() -> None:
    plain, toned = emoji_pairs("en", "fr")
    name = "woman and man holding hands"
    (one,) = (keys for pair, keys in plain.items() if pair.source == name)
    others = [keys for pair, keys in toned.items() if pair.source.startswith(name)]
    assert len(others) == 25
    assert all(set(one) & set(keys) for keys in others)
    assert emoji_family("👫") != emoji_family("👩‍🤝‍👨")  # what their spelling would say


def test_languages_of_emoji() -> None:
    with pytest.raises(UserError, match=r"emoji-names: no language 'eng': did you mean 'en'"):
        load_pairs("emoji-names", source="eng", target="fr")
    assert all(len(load_emoji_names("en", code)["train"]) > 3000 for code in ("ko", "tr"))


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "emoji", None)
    with pytest.raises(UserError, match=r'emoji-names needs emoji: .* "workings\[data\]"'):
        load_pairs("emoji-names", source="en", target="fr")


# -- files -----------------------------------------------------------------------------------------


def test_train_alone_is_cleaned(tmp_path: Path) -> None:
    bad = [("", "x"), ("w " * 101, "w"), ("a b c d", "w " * 13)]
    for part, good in (("train", 50), ("validation", 2), ("test", 2)):
        pairs = [*bad, *((f"{part} {i}", f"{part} {i}") for i in range(good))]
        (tmp_path / f"{part}.de").write_text("".join(f"{one}\n" for one, _ in pairs))
        (tmp_path / f"{part}.en").write_text("".join(f"{other}\n" for _, other in pairs))
    splits = load_pairs(tmp_path, source="de", target="en")
    assert splits.filter_stats.describe() == (
        "50 pairs; left out: 1 empty, 1 longer than 100 words, 1 uneven"
    )
    assert [len(part) for part in parts_of(splits)] == [50, 5, 5]
    assert splits.test[0] == SentencePair("", "x")


def test_the_test_does_not_depend_on_how_train_is_cleaned(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("".join(f"{'w ' * (i % 30)}{i}\t{i}\n" for i in range(200)))
    one = load_pairs(path, source="1", target="2")
    other = load_pairs(path, source="1", target="2", max_length=10, ratio=1.5)
    assert (one.validation, one.test) == (other.validation, other.test)
    assert other.filter_stats.num_too_long + other.filter_stats.num_uneven > 100
    assert other.filter_stats.max_length == 10
    none = load_pairs(path, source="1", target="2", validation=0.0, test=0.0)
    assert (none.validation, none.test) == ((), ())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"target": "1"}, "source and target are both '1'"),
        ({"validation": 0.5, "test": 0.5}, "nothing is left to train on"),
        ({"test": -0.1}, "nothing is left to train on"),
        ({"test": float("nan")}, "nothing is left to train on"),
        ({"max_length": 0}, "max_length = 0: it must be at least 1"),
        ({"ratio": 0.5}, "ratio = 0.5: it must be at least 1"),
        ({"ratio": float("nan")}, "ratio = nan"),
    ],
)
def test_wrong_settings(tmp_path: Path, wrong: dict[str, Any], said: str) -> None:
    (tmp_path / "a.tsv").write_text("a\tb\nc\td\n")
    with pytest.raises(UserError, match=said):
        load_pairs(tmp_path / "a.tsv", **{"source": "1", "target": "2", **wrong})


def test_nothing_left_after_cleaning(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a b c\td\n" * 3)
    with pytest.raises(UserError, match="no pair is left to train on: 0 pairs; left out: 3 longer"):
        load_pairs(tmp_path / "a.tsv", source="1", target="2", validation=0, test=0, max_length=2)


# -- by name ---------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("WORKINGS_DATA", raising=False)
    return tmp_path / "cache" / "workings" / "data"


def test_names() -> None:
    assert list_parallel_datasets() == ("emoji-names", "eng-fra", "multi30k")


def test_files_put_there_are_used(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, word in ((tmp_path / "mine", "mine"), (cache, "cached")):
        (place / "eng-fra").mkdir(parents=True)
        (place / "eng-fra" / "fra.txt").write_text(f"{word}\tà moi\tby somebody\n" * 2)
    assert load_pair_split("eng-fra", "train", source="en", target="fr")[0].source == "cached"
    monkeypatch.setenv("WORKINGS_DATA", str(tmp_path / "mine"))
    found = load_pair_split("eng-fra", "train", source="fr", target="en", allow_download=False)
    assert found == (SentencePair("à moi", "mine"),) * 2


def test_files_are_downloaded_once(
    cache: Path, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.content = gzip.compress(b"one\ntwo\n")
    mirror = Mirror(
        server.url,
        len(server.content),
        f"md5:{hashlib.md5(server.content).hexdigest()}",  # noqa: S324
    )
    chosen = PARALLEL_DATASETS["multi30k"]
    mirrors = dict.fromkeys(chosen.mirrors, mirror)
    monkeypatch.setitem(PARALLEL_DATASETS, "multi30k", dataclasses.replace(chosen, mirrors=mirrors))
    seen: list[tuple[int, int]] = []
    for _ in range(2):
        splits = load_pairs(
            "multi30k", source="de", target="en", progress=lambda *p: seen.append(p)
        )
        assert (
            splits.train == splits.test == (SentencePair("one", "one"), SentencePair("two", "two"))
        )
    assert len(server.requests) == 6
    assert seen[-1] == (len(server.content),) * 2
    assert (cache / "multi30k" / "train.de.gz").is_file()


def test_offline_the_error_says_what_to_put_where(cache: Path, server: Any) -> None:
    with pytest.raises(UserError, match=r"multi30k: train\.de is not on this machine") as error:
        load_pairs("multi30k", source="de", target="en", allow_download=False)
    assert f"put train.de, gzip'd or not, from {PARALLEL_DATASETS['multi30k'].homepage}" in str(
        error.value
    )
    assert str(cache / "multi30k") in str(error.value)
    with pytest.raises(
        UserError, match=r"eng-fra: fra\.txt is not on this machine\nput[\s\S]*WORK"
    ):
        load_pairs("eng-fra", source="en", target="fr")


def test_a_cache_that_cannot_be_written(cache: Path) -> None:
    cache.parent.parent.mkdir(parents=True)
    cache.parent.write_text("a file where the folder should be")
    with pytest.raises(UserError, match=r"Not a directory[\s\S]*WORKINGS_DATA"):
        load_pairs("multi30k", source="de", target="en")


def test_parts_and_languages_of_named_sets(cache: Path) -> None:
    with pytest.raises(UserError, match="multi30k: no language 'deu': did you mean 'de'"):
        load_pairs("multi30k", source="deu", target="en")
    with pytest.raises(
        UserError, match="multi30k: no language 'ru': expected one of cs, de, en, fr"
    ):
        load_pairs("multi30k", source="en", target="ru")
    with pytest.raises(UserError, match="no part 'test_2017_flicker': did you mean 'test_2017_fl"):
        load_pair_split("multi30k", "test_2017_flicker", source="en", target="de")
    with pytest.raises(UserError, match=r"there is no test_2017_mscoco\.cs: not every part has"):
        load_pair_split("multi30k", "test_2017_mscoco", source="cs", target="de")


def test_digests_are_stated_for_every_mirror() -> None:
    for chosen in PARALLEL_DATASETS.values():
        for file, mirror in chosen.mirrors.items():
            method, _, digest = mirror.digest.partition(":")
            assert len(bytes.fromhex(digest)) == hashlib.new(method).digest_size
            assert mirror.size > 0
            assert mirror.url.startswith("https://")
            assert mirror.url.endswith(f"/{file}.gz")


def test_the_files_are_those_of_the_mirrors(data: Path) -> None:
    for file, mirror in PARALLEL_DATASETS["multi30k"].mirrors.items():
        assert matches_any_mirror(data / "multi30k" / f"{file}.gz", [mirror])


@pytest.mark.usefixtures("named")
def test_multi30k() -> None:
    splits = load_pairs("multi30k", source="de", target="en", allow_download=False)
    assert [len(part) for part in parts_of(splits)] == [29_000, 1_014, 1_000]
    assert splits.filter_stats.describe() == "29,000 pairs; none left out"
    assert splits.test[0] == SentencePair(
        "Ein Mann mit einem orangefarbenen Hut, der etwas anstarrt.",
        "A man in an orange hat starring at something.",
    )
    for part, count in (("test_2017_flickr", 1000), ("test_2017_mscoco", 461), ("test", 1000)):
        assert len(load_pair_split("multi30k", part, source="en", target="fr")) == count


@pytest.mark.usefixtures("named")
def test_english_and_french_are_split_by_sentence() -> None:
    splits = load_pairs("eng-fra", source="en", target="fr", allow_download=False)
    assert [len(part) for part in parts_of(splits)[1:]] == [8_356, 8_356]
    assert len(splits.train) + splits.filter_stats.num_uneven == 167_130 - 2 * 8_356
    assert not shared(splits)
    assert load_test_pairs("eng-fra", source="en", target="fr", allow_download=False) == splits.test


def test_two_files_come_before_a_folder_of_that_name(tmp_path):
    (tmp_path / "some").mkdir()
    for ending in ("en", "fr"):
        (tmp_path / f"some.{ending}").write_text("".join(f"{ending} {k}\n" for k in range(40)))
    found = load_pairs(tmp_path / "some", source="en", target="fr")
    assert len(found.train) + len(found.validation) + len(found.test) == 40


def test_a_folder_to_train_on_is_no_test(tmp_path):
    def put(stem):
        for ending in ("en", "fr"):
            (tmp_path / f"{stem}.{ending}").write_text(f"{ending} {stem}\n")

    put("news")  # alone: what else could be meant?
    assert load_test_pairs(tmp_path, source="en", target="fr")[0].source == "en news"
    for stem in ("train", "validation"):
        put(stem)
        with pytest.raises(UserError, match=r"nothing to test on: no test\.en and test\.fr"):
            load_test_pairs(tmp_path, source="en", target="fr")
    put("test")
    assert load_test_pairs(tmp_path, source="en", target="fr")[0].source == "en test"
