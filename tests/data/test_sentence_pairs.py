"""Sentence pairs: files, columns and folders; filters; splits that share no sentence."""

import gzip
import io
import json
import re
from collections import Counter
from contextlib import suppress
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workings.data import (
    FilterStats,
    PairSplits,
    SentencePair,
    load_pair_split,
    load_pairs,
    read_records,
)
from workings.data.parallel import load_test_pairs
from workings.data.sentence_pairs import (
    count_words,
    filter_pairs,
    group_by_shared_keys,
    hold_out_pairs,
    pair_keys,
    read_columns,
    read_parallel,
    sentence_key,
)
from workings.errors import UserError

PAIRS = [
    SentencePair("Brot", "bread"),
    SentencePair("roter Wein", "red wine"),
    SentencePair("", "nothing"),
]
DE, EN = "Brot\nroter Wein\n\n", "bread\nred wine\nnothing\n"
SENTENCES = st.lists(
    st.tuples(*[st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), max_size=9)] * 2),
    min_size=1,
    max_size=9,
)


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_read_parallel(tmp_path: Path, newline: str, bom: str) -> None:
    german = write(tmp_path / "train.de", bom + DE.replace("\n", newline))
    english = write(tmp_path / "train.en.gz", gzip.compress(EN.encode()))
    assert list(read_parallel(german, english)) == PAIRS
    write(german, bom + DE.replace("\n", newline) + "Käse")  # without a newline at the end
    write(english, EN + "cheese")
    assert list(read_parallel(german, english)) == [*PAIRS, SentencePair("Käse", "cheese")]


def test_read_columns_by_name_and_by_number(tmp_path: Path) -> None:
    table = [("id", "de", "en"), *((str(i), p.source, p.target) for i, p in enumerate(PAIRS))]
    tsv = "".join("\t".join(row) + "\r\n" for row in table)
    with_header = write(tmp_path / "a.tsv", tsv)
    assert list(read_columns(with_header, "de", "en")) == PAIRS
    assert next(read_columns(with_header, "en", "de")) == SentencePair("bread", "Brot")
    without_header = write(tmp_path / "b.txt", tsv.split("\r\n", 1)[1])
    assert list(read_columns(without_header, "2", "3")) == PAIRS
    csv = write(
        tmp_path / "c.csv.gz", gzip.compress("".join(f"{','.join(r)}\n" for r in table).encode())
    )
    assert list(read_columns(csv, "de", "en")) == PAIRS
    jsonl = "\n".join(json.dumps({"de": p.source, "en": p.target, "1": 0}) for p in PAIRS)
    assert list(read_columns(write(tmp_path / "d.jsonl", jsonl), "de", "en")) == PAIRS


def test_numbered_columns() -> None:
    records = list(read_records(io.BytesIO(b"a,b\nc,d\n"), format="csv", numbered_columns=True))
    assert [record.fields for record in records] == [{"1": "a", "2": "b"}, {"1": "c", "2": "d"}]


def test_line_breaks_in_a_sentence_become_spaces(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", 'de,en\n" zwei\r\n Zeilen","two\n\n lines\u202f!"\n')
    assert list(read_columns(path, "de", "en")) == [SentencePair("zwei Zeilen", "two lines\u202f!")]


@pytest.mark.parametrize(
    ("german", "english", "message"),
    [
        (
            "a\nb\nc\n",
            "a\nb\n",
            r"train\.de has 3 lines, .*train\.en has 2: line 3 has no translation",
        ),
        (
            "a\n",
            "a\nb\nc\n\n",
            r"train\.en has 4 lines, .*train\.de has 1: line 2 has no translation",
        ),
        ("a\n", "", r"train\.en: empty"),
        ("", "a\n", r"train\.de: empty"),
        ("", "", "empty"),
        (b"a\nb\xff\n", "a\nb\n", r"train\.de, line 2: not UTF-8: byte 0xff in column 2"),
        ("a\nb\n", b"caf\xe9\nb\n", r"train\.en, line 1: not UTF-8"),
        ("a\n", "a\n", "only one pair: nothing is left to train on besides test and validation"),
        ("a\nb\n", "a\nb\n", "only 2 pairs"),
        (" \n\n\t\n", "a\nb\nc\n", "all 3 pairs have an empty side"),
        ("a\n" * 50, "b\n" * 50, "smallest group of pairs that share sentences has 50"),
    ],
)
def test_invalid_parallel_files_are_rejected(
    tmp_path: Path, german: str | bytes, english: str | bytes, message: str
) -> None:
    write(tmp_path / "train.de", german)
    write(tmp_path / "train.en", english)
    for data in (tmp_path, tmp_path / "train"):
        with pytest.raises(UserError, match=message) as caught:
            load_pairs(data, source="de", target="en")
        assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "de\tfr\na\tb\n", "line 2: no column 'en': the columns are de, fr"),
        ("a.tsv", "Brot\tbread\nWein\twine\n", "if the file has no header, give columns by number"),
        ("a.jsonl", '{"de": "a", "en": null}', "line 1: 'en' is not text but null"),
        ("a.csv", "", "empty"),
        ("a.csv", "de,en\n", "empty"),
        ("a.csv", "de,en\na,b\n", "only one pair"),
        ("a.tsv", "de\ten\na\tb\nc\n", "line 3: 1 fields, but 2 columns"),
        ("a.xlsx", "PK", "unknown file name suffix: expected .tsv, .csv, .jsonl"),
        ("train.de", "a\n", "no train.en there"),
    ],
)
def test_invalid_columns_are_rejected(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    path = write(tmp_path / name, content)
    data = path.with_suffix("") if name.endswith(".de") else path
    with pytest.raises(UserError, match=message) as caught:
        load_pairs(data, source="de", target="en")
    assert len(str(caught.value).splitlines()) == 1


def test_missing_numbered_column_is_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "a\tb\nc\td\n")
    with pytest.raises(UserError, match="line 1: no column '3': the columns are 1, 2"):
        load_pairs(path, source="1", target="3")


def test_missing_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean 'multi30k'"):
        load_pairs("multi30", source="de", target="en")
    with pytest.raises(UserError, match=r"no train\.de and train\.en, and no named dataset"):
        load_pairs(tmp_path / "train", source="de", target="en")
    with pytest.raises(UserError, match=r"expected train\.de and train\.en, or train\.tsv"):
        load_pairs(tmp_path, source="de", target="en")
    write(tmp_path / "train.de", "a\n")
    write(tmp_path / "train.en", "a\n")
    with pytest.raises(UserError, match=r"train\.de: one of two parallel files: give .*/train$"):
        load_pairs(tmp_path / "train.de", source="de", target="en")
    with pytest.raises(UserError, match=r"no test\.de and test\.en there"):
        load_pair_split(tmp_path, "test", source="de", target="en")
    with pytest.raises(UserError, match="neither a folder nor a named dataset"):
        load_pair_split("multi3k", "test", source="de", target="en")


def write_parallel(folder: Path, stem: str, count: int) -> None:
    for suffix in ("de", "en"):
        lines = (f"{stem} {suffix} {i}\n" for i in range(count))
        write(folder / f"{stem}.{suffix}", "".join(lines))


def test_splits_of_a_folder(tmp_path: Path) -> None:
    write_parallel(tmp_path, "train", 40)
    write_parallel(tmp_path, "val", 3)
    splits = load_pairs(tmp_path, source="de", target="en", test=0.1)
    assert [len(p) for p in (splits.train, splits.validation, splits.test)] == [36, 3, 4]
    write_parallel(tmp_path, "test_b", 2)
    write_parallel(tmp_path, "test_c", 1)
    splits = load_pairs(tmp_path, source="de", target="en")
    assert [len(p) for p in (splits.train, splits.validation, splits.test)] == [40, 3, 2]
    assert load_pair_split(tmp_path, "test_c", source="en", target="de") == (
        SentencePair("test_c en 0", "test_c de 0"),
    )
    write_parallel(tmp_path, "test", 5)
    assert len(load_pairs(tmp_path, source="de", target="en").test) == 5
    write_parallel(tmp_path, "dev", 2)
    with pytest.raises(
        UserError, match=r"both dev\.\* and val\.\* are there: expected one validation split"
    ):
        load_pairs(tmp_path, source="de", target="en")


def test_folder_with_one_pair_of_files_or_with_columns(tmp_path: Path) -> None:
    write_parallel(tmp_path / "one", "europarl-v7.de-en", 40)
    write(tmp_path / "one" / "readme.de", "lies mich")
    assert len(load_pairs(tmp_path / "one", source="de", target="en").train) == 36
    table = "".join(f"brot {i}\tbread {i}\n" for i in range(40))
    write(tmp_path / "columns" / "train.tsv", f"de\ten\n{table}")
    write(tmp_path / "columns" / "dev.jsonl", '{"de": "x", "en": "y"}')
    splits = load_pairs(tmp_path / "columns", source="de", target="en")
    assert [len(p) for p in (splits.train, splits.validation, splits.test)] == [38, 1, 2]


def test_no_split_of_a_folder_is_ignored(tmp_path: Path) -> None:
    for split, count in (("train", 9), ("val", 2)):
        for suffix in ("de", "en"):
            write(tmp_path / f"{split}.{suffix}", "".join(f"{split} {k}\n" for k in range(count)))
    write(tmp_path / "train.txt", "no pair\n")  # for example the names of images
    write(tmp_path / "test.tsv", "de\ten\nBrot\tbread\n")
    splits = load_pairs(tmp_path, source="de", target="en")
    assert [len(split) for split in (splits.train, splits.validation)] == [9, 2]
    assert splits.test == (SentencePair("Brot", "bread"),)
    write(tmp_path / "test.csv", "de,en\nBrot,bread\n")
    with pytest.raises(UserError, match="more than one file for test: expected one"):
        load_pairs(tmp_path, source="de", target="en")
    (tmp_path / "test.csv").unlink()
    (tmp_path / "val.en").unlink()
    with pytest.raises(UserError, match=r"val\.de is there, but no val\.en"):
        load_pairs(tmp_path, source="de", target="en")


def test_files_take_precedence_over_a_named_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "multi30k").mkdir()
    for suffix, text in (("de", "Brot"), ("en", "bread")):
        write(tmp_path / "multi30k" / f"mine.{suffix}", f"{text}\n")
    pairs = load_test_pairs("multi30k/mine", source="de", target="en", allow_download=False)
    assert pairs == (SentencePair("Brot", "bread"),)


def test_links_that_lead_out_of_the_folder_are_rejected(tmp_path: Path) -> None:
    secret = write(tmp_path / "secret.txt", "secret\n")
    write_parallel(tmp_path / "set", "train", 40)
    (tmp_path / "set" / "test.de").symlink_to(secret)
    write(tmp_path / "set" / "test.en", "x\n")
    with pytest.raises(UserError, match=r"test\.de: a link that leads out of its folder"):
        load_pairs(tmp_path / "set", source="de", target="en")


@given(SENTENCES)
def test_all_formats_give_the_same_pairs(
    tmp_path_factory: pytest.TempPathFactory, sentences: list[tuple[str, str]]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    pairs = [SentencePair(*pair) for pair in sentences]
    source = write(folder / "a.x", "".join(f"{p.source}\n" for p in pairs))
    target = write(folder / "a.y", "".join(f"{p.target}\r\n" for p in pairs))
    tsv = "".join(f"{p.source}\t{p.target}\n" for p in pairs)
    jsonl = "".join(json.dumps({"x": p.source, "y": p.target}) + "\n" for p in pairs)
    assert list(read_parallel(source, target)) == pairs
    assert list(read_columns(write(folder / "a.tsv", tsv), "1", "2")) == pairs
    assert list(read_columns(write(folder / "a.jsonl", jsonl), "x", "y")) == pairs


LINES = st.binary(max_size=30) | st.lists(
    st.sampled_from([b"a", b"b c", b"", b"\r", b"\xff", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\t"])
).map(b"\n".join)


@given(LINES, LINES, st.sampled_from([0.0, 0.3]))
def test_arbitrary_bytes_raise_only_user_errors(
    tmp_path_factory: pytest.TempPathFactory, german: bytes, english: bytes, fraction: float
) -> None:
    folder = tmp_path_factory.mktemp("any")
    write(folder / "train.de", german)
    write(folder / "train.en", english)
    table = write(folder / "table.tsv", german + b"\t" + english)
    for data, source, target in ((folder / "train", "de", "en"), (table, "1", "2")):
        with suppress(UserError):
            splits = load_pairs(
                data, source=source, target=target, validation=fraction, test=fraction
            )
            assert splits.train
            assert bool(splits.test) == bool(splits.validation) == bool(fraction)


# -- filters and splits ----------------------------------------------------------------------------


# Few sentences, so that most of them have several translations.
SPLIT_SENTENCES = st.text("abcAB.! é", max_size=3)
SPLIT_PAIRS = st.lists(st.builds(SentencePair, SPLIT_SENTENCES, SPLIT_SENTENCES), max_size=60)
COUNTS = st.integers(0, 12)


def normalize(text: str) -> str:
    return " ".join(re.findall("[abcé]+", text.lower())) or text


@given(SPLIT_PAIRS, COUNTS, COUNTS, st.integers(0, 3))
def test_pairs_are_preserved_and_no_sentence_is_in_two_splits(
    pairs: list[SentencePair], first: int, second: int, seed: int
) -> None:
    try:
        lists = hold_out_pairs(pairs, first, second, seed=seed)
    except UserError:
        return
    assert sum(map(Counter, lists), Counter()) == Counter(pairs)
    assert len(lists[1]) <= first
    assert len(lists[2]) <= second
    complete = [[p for p in pairs if p.source.strip() and p.target.strip()] for pairs in lists]
    for sentences in (
        [{normalize(p.source) for p in pairs} for pairs in complete],
        [{normalize(p.target) for p in pairs} for pairs in complete],
    ):
        assert not any(a & b for a, b in combinations(sentences, 2))
    assert all(p.source.strip() and p.target.strip() for held in lists[1:] for p in held)
    reverse = hold_out_pairs(pairs[::-1], first, second, seed=seed)
    assert tuple(held[::-1] for held in reverse) == lists


@given(st.integers(10, 200), st.integers(1, 5), st.integers(1, 5), st.integers(0, 9))
def test_exact_counts_are_held_out_of_unrelated_pairs(
    count: int, first: int, second: int, seed: int
) -> None:
    pairs = [SentencePair(f"a{i}", f"b{i}") for i in range(count)]
    rest, test, validation = hold_out_pairs(pairs, first, second, seed=seed)
    assert (len(rest), len(test), len(validation)) == (count - first - second, first, second)


def test_seed_determines_the_held_out_pairs() -> None:
    pairs = [SentencePair(f"a{i}", f"b{i}") for i in range(100)]
    assert hold_out_pairs(pairs, 20, seed=1) != hold_out_pairs(pairs, 20, seed=2)
    held = hold_out_pairs(pairs, 3, seed=0)[1]
    assert [p.source for p in held] == [
        "a0",
        "a32",
        "a67",
    ]  # frozen: earlier scores are on this test set


def test_group_larger_than_the_count_is_not_held_out() -> None:
    large = [SentencePair("hi", f"b{i}") for i in range(50)]
    pairs = [*large, *(SentencePair(f"a{i}", f"c{i}") for i in range(20))]
    rest, held = hold_out_pairs(pairs, 20)
    assert rest == large
    assert len(held) == 20


@given(st.lists(st.lists(st.integers(0, 20), max_size=3), max_size=40))
def test_groups_equal_connected_components(keys: list[list[int]]) -> None:
    groups = group_by_shared_keys(keys)
    # Reference: a breadth-first search from each item.
    for start in range(len(keys)):
        reached, seen = {start}, set(keys[start])
        while True:
            more = {i for i, item_keys in enumerate(keys) if seen & set(item_keys)} - reached
            if not more:
                break
            reached |= more
            seen |= {key for i in more for key in keys[i]}
        assert reached == {i for i, group in enumerate(groups) if group == groups[start]}


def test_large_group_is_found_quickly() -> None:
    chain = [SentencePair(f"a{i // 2}", f"b{(i + 1) // 2}") for i in range(20_000)]
    assert set(group_by_shared_keys(map(pair_keys, chain))) == {0}


def test_sentence_key_ignores_case_and_punctuation() -> None:
    same = ["Va\u202f!", "va !", "« Va. »", "VA", "\uff36\uff21"]
    assert {sentence_key(text) for text in same} == {"va"}
    different = ["की", "का", "!", "?", "", "C++", "C", "2.5", "25", "🙂", "🙃"]
    assert len({sentence_key(text) for text in different}) == len(different)


def test_filter_leaves_out_empty_long_and_uneven_pairs() -> None:
    good = [
        SentencePair("Help!", "À l'aide, s'il vous plaît !"),
        SentencePair("word " * 100, "mot " * 34),
        SentencePair(
            "两个年轻的白人男子在灌木丛附近", "Two young white men are outside near many bushes"
        ),
        SentencePair("1 2 3 4", "1 2 3 4 5 6 7 8 9 10 11 12"),
    ]
    bad = [
        SentencePair("", "a"),
        SentencePair("a", "\u2003"),
        SentencePair("word " * 10_000, "mot " * 10_000),
        SentencePair("word " * 101, "mot"),
        SentencePair("1 2 3 4", "1 2 3 4 5 6 7 8 9 10 11 12 13"),
        SentencePair("a b c d e f g h i j", "a"),
    ]
    filtered, stats = filter_pairs([*bad, *good], 100, 3.0)
    assert filtered == good
    assert stats == FilterStats(4, num_empty=2, num_too_long=2, num_uneven=2)
    assert stats.describe() == ("4 pairs; left out: 2 empty, 2 longer than 100 words, 2 uneven")
    assert filter_pairs(bad, 100_000, float("inf"))[1].num_kept == 4


@given(st.text("ab é\u3000\n"))
def test_words_are_separated_by_spaces(text: str) -> None:
    assert count_words(text) == len(text.split())


def test_repr_and_checksum() -> None:
    one = PairSplits("toy", (SentencePair("a", "b"),), (), (), FilterStats(1))
    assert repr(one) == "PairSplits('toy': 1 train, 0 validation, 0 test)"
    others = [
        PairSplits("toy", (), (SentencePair("a", "b"),), (), FilterStats(0)),
        PairSplits("toy", (SentencePair("ab", ""),), (), (), FilterStats(1)),
        PairSplits("toy", (SentencePair("a", "b"),) * 2, (), (), FilterStats(1)),
    ]
    assert len({splits.checksum for splits in (one, *others)}) == 4


def test_counts_below_the_smallest_group_are_rejected() -> None:
    with pytest.raises(
        UserError, match=r"cannot hold out 1 of 4 pairs: the smallest group .* has 2"
    ):
        hold_out_pairs(
            [
                SentencePair("a", "b"),
                SentencePair("a", "c"),
                SentencePair("d", "e"),
                SentencePair("f", "e"),
            ],
            1,
        )
