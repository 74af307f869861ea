"""Sentence pairs of named datasets, and of files: filtered, held out, to test on."""

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
from workings.data.parallel import (
    PARALLEL_DATASETS,
    _collect_name_pairs,
    load_emoji_names,
    load_test_pairs,
)
from workings.data.sentence_pairs import pair_keys
from workings.errors import UserError


def all_splits(splits: PairSplits) -> tuple[tuple[SentencePair, ...], ...]:
    return splits.train, splits.validation, splits.test


def find_shared_sentences(splits: PairSplits) -> set[tuple[str, str]]:
    """Return the sentences that are in two splits."""
    keys = [{key for pair in split for key in pair_keys(pair)} for split in all_splits(splits)]
    return {key for a, b in combinations(keys, 2) for key in a & b}


# -- emoji -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "target"), [("en", "fr"), ("de", "zh"), ("ja", "ar")])
def test_emoji_names_are_split_without_overlap(source: str, target: str) -> None:
    splits = load_pairs("emoji-names", source=source, target=target, allow_download=False)
    assert len(splits.train) > 3000
    assert min(len(splits.validation), len(splits.test)) > 70
    assert splits.filter_stats.num_kept == len(splits.train)
    assert not find_shared_sentences(splits)
    pairs = [pair for split in all_splits(splits) for pair in split]
    assert len(pairs) == len(set(pairs))
    assert splits == load_pairs("emoji-names", source=source, target=target)
    assert splits != load_pairs("emoji-names", source=source, target=target, seed=1)


def test_emoji_names_are_translations() -> None:
    splits = load_pairs("emoji-names", source="en", target="fr", validation=0.1, test=0.1)
    pairs = {pair for split in all_splits(splits) for pair in split}
    assert (
        SentencePair("grinning face with big eyes", "visage souriant avec de grands yeux") in pairs
    )
    assert not [p for p in pairs if "drapeau" in p.target and "flag" not in p.source]
    reverse = load_pairs("emoji-names", source="fr", target="en", validation=0.1, test=0.1)
    assert len(reverse.test) == len(splits.test)


def test_variants_of_an_emoji_are_in_one_split() -> None:
    splits = load_emoji_names("en", "fr", validation=0.2, test=0.2)
    split_of = {pair: split for split, pairs in splits.items() for pair in pairs}
    families: dict[str, set[str]] = {}
    for character, data in emoji.EMOJI_DATA.items():
        pair = SentencePair(clean_emoji_name(data["en"]), clean_emoji_name(data.get("fr", "")))
        if pair in split_of:
            without_tone = "".join(c for c in character if c not in SKIN_TONES)
            families.setdefault(emoji_family(without_tone), set()).add(split_of[pair])
    assert len(families) > 1000
    assert {len(names) for names in families.values()} == {1}
    assert not any("skin tone" in p.source for p in (*splits["validation"], *splits["test"]))
    assert sum("skin tone" in p.source for p in splits["train"]) > 500


def test_couples_with_two_skin_tones_share_keys_with_those_without() -> None:
    plain, toned = _collect_name_pairs("en", "fr")
    name = "woman and man holding hands"
    (plain_keys,) = (keys for pair, keys in plain.items() if pair.source == name)
    toned_keys = [keys for pair, keys in toned.items() if pair.source.startswith(name)]
    assert len(toned_keys) == 25
    assert all(set(plain_keys) & set(keys) for keys in toned_keys)
    assert emoji_family("👫") != emoji_family("👩‍🤝‍👨")  # their characters do not show it


def test_languages_of_emoji_names() -> None:
    with pytest.raises(UserError, match=r"emoji-names: no language 'eng': did you mean 'en'"):
        load_pairs("emoji-names", source="eng", target="fr")
    assert all(len(load_emoji_names("en", code)["train"]) > 3000 for code in ("ko", "tr"))


def test_missing_package_has_install_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "emoji", None)
    with pytest.raises(UserError, match=r'emoji-names needs emoji: .* "workings\[data\]'):
        load_pairs("emoji-names", source="en", target="fr")


# -- files -----------------------------------------------------------------------------------------


def test_only_train_is_filtered(tmp_path: Path) -> None:
    bad = [("", "x"), ("w " * 101, "w"), ("a b c d", "w " * 13)]
    for split, good in (("train", 50), ("validation", 2), ("test", 2)):
        pairs = [*bad, *((f"{split} {i}", f"{split} {i}") for i in range(good))]
        (tmp_path / f"{split}.de").write_text("".join(f"{source}\n" for source, _ in pairs))
        (tmp_path / f"{split}.en").write_text("".join(f"{target}\n" for _, target in pairs))
    splits = load_pairs(tmp_path, source="de", target="en")
    assert splits.filter_stats.describe() == (
        "50 pairs; left out: 1 empty, 1 longer than 100 words, 1 uneven"
    )
    assert [len(split) for split in all_splits(splits)] == [50, 5, 5]
    assert splits.test[0] == SentencePair("", "x")


def test_held_out_splits_do_not_depend_on_the_filter(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("".join(f"{'w ' * (i % 30)}{i}\t{i}\n" for i in range(200)))
    default = load_pairs(path, source="1", target="2")
    strict = load_pairs(path, source="1", target="2", max_length=10, ratio=1.5)
    assert (default.validation, default.test) == (strict.validation, strict.test)
    assert strict.filter_stats.num_too_long + strict.filter_stats.num_uneven > 100
    assert strict.filter_stats.max_length == 10
    none = load_pairs(path, source="1", target="2", validation=0.0, test=0.0)
    assert (none.validation, none.test) == ((), ())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "1"}, "source and target are both '1'"),
        ({"validation": 0.5, "test": 0.5}, "nothing is left to train on"),
        ({"test": -0.1}, "nothing is left to train on"),
        ({"test": float("nan")}, "nothing is left to train on"),
        ({"max_length": 0}, "max_length = 0: expected at least 1"),
        ({"ratio": 0.5}, "ratio = 0.5: expected at least 1"),
        ({"ratio": float("nan")}, "ratio = nan"),
    ],
)
def test_invalid_options_are_rejected(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    (tmp_path / "a.tsv").write_text("a\tb\nc\td\n")
    with pytest.raises(UserError, match=message):
        load_pairs(tmp_path / "a.tsv", **{"source": "1", "target": "2", **options})


def test_filter_that_leaves_nothing_is_reported(tmp_path: Path) -> None:
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


def test_list_parallel_datasets() -> None:
    assert list_parallel_datasets() == ("emoji-names", "eng-fra", "multi30k")


def test_workings_data_takes_precedence_over_the_cache(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, word in ((tmp_path / "mine", "mine"), (cache, "cached")):
        (folder / "eng-fra").mkdir(parents=True)
        (folder / "eng-fra" / "fra.txt").write_text(f"{word}\tà moi\tby somebody\n" * 2)
    assert load_pair_split("eng-fra", "train", source="en", target="fr")[0].source == "cached"
    monkeypatch.setenv("WORKINGS_DATA", str(tmp_path / "mine"))
    pairs = load_pair_split("eng-fra", "train", source="fr", target="en", allow_download=False)
    assert pairs == (SentencePair("à moi", "mine"),) * 2


def test_test_pairs_of_a_dataset_without_test_split_are_held_out(cache: Path) -> None:
    (cache / "eng-fra").mkdir(parents=True)
    (cache / "eng-fra" / "fra.txt").write_text("".join(f"en {i}\tfr {i}\n" for i in range(100)))
    splits = load_pairs("eng-fra", source="en", target="fr", allow_download=False)
    pairs = load_test_pairs("eng-fra", source="en", target="fr", allow_download=False)
    assert len(pairs) == 5
    assert pairs == splits.test


def test_files_are_downloaded_once(
    cache: Path, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.content = gzip.compress(b"one\ntwo\n")
    mirror = Mirror(
        server.url,
        len(server.content),
        f"sha256:{hashlib.sha256(server.content).hexdigest()}",
    )
    spec = PARALLEL_DATASETS["multi30k"]
    mirrors = dict.fromkeys(spec.mirrors, mirror)
    monkeypatch.setitem(PARALLEL_DATASETS, "multi30k", dataclasses.replace(spec, mirrors=mirrors))
    progress: list[tuple[int, int]] = []
    for _ in range(2):
        splits = load_pairs(
            "multi30k", source="de", target="en", progress=lambda *p: progress.append(p)
        )
        assert (
            splits.train == splits.test == (SentencePair("one", "one"), SentencePair("two", "two"))
        )
    assert len(server.requests) == 6
    assert progress[-1] == (len(server.content),) * 2
    assert (cache / "multi30k" / "train.de.gz").is_file()


def test_error_explains_how_to_download_the_files_manually(cache: Path, server: Any) -> None:
    with pytest.raises(UserError, match=r"multi30k: train\.de is not on this machine") as error:
        load_pairs("multi30k", source="de", target="en", allow_download=False)
    assert f"put train.de, gzipped or not, from {PARALLEL_DATASETS['multi30k'].homepage}" in str(
        error.value
    )
    assert str(cache / "multi30k") in str(error.value)
    with pytest.raises(
        UserError, match=r"eng-fra: fra\.txt is not on this machine\nput[\s\S]*WORK"
    ):
        load_pairs("eng-fra", source="en", target="fr")


def test_unwritable_cache_is_reported(cache: Path) -> None:
    cache.parent.parent.mkdir(parents=True)
    cache.parent.write_text("a file where the folder should be")
    with pytest.raises(UserError, match=r"Not a directory[\s\S]*WORKINGS_DATA"):
        load_pairs("multi30k", source="de", target="en")


def test_unknown_languages_and_splits_are_rejected(cache: Path) -> None:
    with pytest.raises(UserError, match="multi30k: no language 'deu': did you mean 'de'"):
        load_pairs("multi30k", source="deu", target="en")
    with pytest.raises(
        UserError, match="multi30k: no language 'ru': expected one of cs, de, en, fr"
    ):
        load_pairs("multi30k", source="en", target="ru")
    with pytest.raises(UserError, match="no split 'test_2017_flicker': did you mean 'test_2017_fl"):
        load_pair_split("multi30k", "test_2017_flicker", source="en", target="de")
    with pytest.raises(UserError, match=r"test_2017_mscoco\.cs is not on .*\nnot every split is"):
        load_pair_split("multi30k", "test_2017_mscoco", source="cs", target="de")


def test_every_mirror_has_a_size_and_a_digest() -> None:
    for spec in PARALLEL_DATASETS.values():
        for file, mirror in spec.mirrors.items():
            algorithm, _, digest = mirror.digest.partition(":")
            assert len(bytes.fromhex(digest)) == hashlib.new(algorithm).digest_size
            assert mirror.size > 0
            assert mirror.url.startswith("https://")
            assert mirror.url.endswith(f"/{file}.gz")


def test_real_files_match_the_mirrors(data: Path) -> None:
    for file, mirror in PARALLEL_DATASETS["multi30k"].mirrors.items():
        assert matches_any_mirror(data / "multi30k" / f"{file}.gz", [mirror])


@pytest.mark.usefixtures("named")
def test_multi30k() -> None:
    splits = load_pairs("multi30k", source="de", target="en", allow_download=False)
    assert [len(split) for split in all_splits(splits)] == [29_000, 1_014, 1_000]
    assert splits.filter_stats.describe() == "29,000 pairs; none left out"
    assert splits.test[0] == SentencePair(
        "Ein Mann mit einem orangefarbenen Hut, der etwas anstarrt.",
        "A man in an orange hat starring at something.",
    )
    for split, count in (("test_2017_flickr", 1000), ("test_2017_mscoco", 461), ("test", 1000)):
        assert len(load_pair_split("multi30k", split, source="en", target="fr")) == count


@pytest.mark.usefixtures("named")
def test_eng_fra_is_split_by_sentence() -> None:
    splits = load_pairs("eng-fra", source="en", target="fr", allow_download=False)
    assert [len(split) for split in all_splits(splits)[1:]] == [8_356, 8_356]
    assert len(splits.train) + splits.filter_stats.num_uneven == 167_130 - 2 * 8_356
    assert not find_shared_sentences(splits)


def test_parallel_files_take_precedence_over_a_folder(tmp_path: Path) -> None:
    (tmp_path / "some").mkdir()
    for suffix in ("en", "fr"):
        (tmp_path / f"some.{suffix}").write_text("".join(f"{suffix} {k}\n" for k in range(40)))
    splits = load_pairs(tmp_path / "some", source="en", target="fr")
    assert sum(map(len, all_splits(splits))) == 40


def test_training_folder_without_test_split_is_rejected(tmp_path: Path) -> None:
    def write(stem: str) -> None:
        for suffix in ("en", "fr"):
            (tmp_path / f"{stem}.{suffix}").write_text(f"{suffix} {stem}\n")

    write("news")  # the only files of the folder are taken
    assert load_test_pairs(tmp_path, source="en", target="fr")[0].source == "en news"
    for stem in ("train", "validation"):
        write(stem)
        with pytest.raises(UserError, match=r"no test split: expected test\.en and test\.fr"):
            load_test_pairs(tmp_path, source="en", target="fr")
    write("test")
    assert load_test_pairs(tmp_path, source="en", target="fr")[0].source == "en test"
