import gzip
import io
import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workings.data import SentencePair, load_pair_split, load_pairs, read_records
from workings.data.parallel import load_test_pairs
from workings.data.parallel_files import read_columns, read_parallel
from workings.errors import UserError

BREAD = [
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


def put(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_parallel_files_line_by_line(tmp_path: Path, end: str, bom: str) -> None:
    german = put(tmp_path / "train.de", bom + DE.replace("\n", end))
    english = put(tmp_path / "train.en.gz", gzip.compress(EN.encode()))
    assert list(read_parallel(german, english)) == BREAD
    put(german, bom + DE.replace("\n", end) + "Käse")  # whose line nobody ended
    put(english, EN + "cheese")
    assert list(read_parallel(german, english)) == [*BREAD, SentencePair("Käse", "cheese")]


def test_columns_by_name_and_by_number(tmp_path: Path) -> None:
    table = [("id", "de", "en"), *((str(i), p.source, p.target) for i, p in enumerate(BREAD))]
    tabbed = "".join("\t".join(row) + "\r\n" for row in table)
    with_header = put(tmp_path / "a.tsv", tabbed)
    assert list(read_columns(with_header, "de", "en")) == BREAD
    assert next(read_columns(with_header, "en", "de")) == SentencePair("bread", "Brot")
    bare = put(tmp_path / "b.txt", tabbed.split("\r\n", 1)[1])
    assert list(read_columns(bare, "2", "3")) == BREAD
    comma = put(
        tmp_path / "c.csv.gz", gzip.compress("".join(f"{','.join(r)}\n" for r in table).encode())
    )
    assert list(read_columns(comma, "de", "en")) == BREAD
    lines = "\n".join(json.dumps({"de": p.source, "en": p.target, "1": 0}) for p in BREAD)
    assert list(read_columns(put(tmp_path / "d.jsonl", lines), "de", "en")) == BREAD


def test_numbered_columns() -> None:
    found = list(read_records(io.BytesIO(b"a,b\nc,d\n"), format="csv", numbered_columns=True))
    assert [row.fields for row in found] == [{"1": "a", "2": "b"}, {"1": "c", "2": "d"}]


def test_a_sentence_is_one_line(tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv", 'de,en\n" zwei\r\n Zeilen","two\n\n lines\u202f!"\n')
    assert list(read_columns(path, "de", "en")) == [SentencePair("zwei Zeilen", "two lines\u202f!")]


@pytest.mark.parametrize(
    ("german", "english", "said"),
    [
        ("a\nb\nc\n", "a\nb\n", r"train\.de has 3 lines, .*train\.en 2: line 3 has no partner"),
        ("a\n", "a\nb\nc\n\n", r"train\.en has 4 lines, .*train\.de 1: line 2 has no partner"),
        ("a\n", "", r"train\.en: empty"),
        ("", "a\n", r"train\.de: empty"),
        ("", "", "empty"),
        (b"a\nb\xff\n", "a\nb\n", r"train\.de, line 2: not UTF-8: byte 0xff in column 2"),
        ("a\nb\n", b"caf\xe9\nb\n", r"train\.en, line 1: not UTF-8"),
        ("a\n", "a\n", "one pair only: nothing is left to train on beside test and validation"),
        ("a\nb\n", "a\nb\n", "2 pairs only"),
        (" \n\n\t\n", "a\nb\nc\n", "of 3 pairs, none has two sides"),
        ("a\n" * 50, "b\n" * 50, "those that share sentences are 50 or more"),
    ],
)
def test_what_is_wrong_with_parallel_files(
    tmp_path: Path, german: str | bytes, english: str | bytes, said: str
) -> None:
    put(tmp_path / "train.de", german)
    put(tmp_path / "train.en", english)
    for data in (tmp_path, tmp_path / "train"):
        with pytest.raises(UserError, match=said) as caught:
            load_pairs(data, source="de", target="en")
        assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.tsv", "de\tfr\na\tb\n", "line 2: no column 'en': there are de, fr"),
        ("a.tsv", "Brot\tbread\nWein\twine\n", "if that is no header, give it one"),
        ("a.jsonl", '{"de": "a", "en": null}', "line 1: 'en' is not text but null"),
        ("a.csv", "", "empty"),
        ("a.csv", "de,en\n", "empty"),
        ("a.csv", "de,en\na,b\n", "one pair only"),
        ("a.tsv", "de\ten\na\tb\nc\n", "line 3: 1 fields, but 2 columns"),
        ("a.xlsx", "PK", "its name tells no format: expected .tsv, .csv or .jsonl"),
        ("train.de", "a\n", "no train.en in it"),
    ],
)
def test_what_is_wrong_with_columns(tmp_path: Path, name: str, content: str, said: str) -> None:
    path = put(tmp_path / name, content)
    data = path.with_suffix("") if name.endswith(".de") else path
    with pytest.raises(UserError, match=said) as caught:
        load_pairs(data, source="de", target="en")
    assert len(str(caught.value).splitlines()) == 1


def test_a_column_that_is_not_there_by_number(tmp_path: Path) -> None:
    path = put(tmp_path / "a.tsv", "a\tb\nc\td\n")
    with pytest.raises(UserError, match="line 1: no column '3': there are 1, 2"):
        load_pairs(path, source="1", target="3")


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean 'multi30k'"):
        load_pairs("multi30", source="de", target="en")
    with pytest.raises(UserError, match=r"no train\.de and train\.en, and no named set"):
        load_pairs(tmp_path / "train", source="de", target="en")
    with pytest.raises(UserError, match=r"expected train\.de and train\.en in it, or train\.tsv"):
        load_pairs(tmp_path, source="de", target="en")
    put(tmp_path / "train.de", "a\n")
    put(tmp_path / "train.en", "a\n")
    with pytest.raises(UserError, match=r"train\.de: one side of two: give .*/train$"):
        load_pairs(tmp_path / "train.de", source="de", target="en")
    with pytest.raises(UserError, match=r"no test\.de and test\.en in it"):
        load_pair_split(tmp_path, "test", source="de", target="en")
    with pytest.raises(UserError, match="neither a folder nor a named set"):
        load_pair_split("multi3k", "test", source="de", target="en")


def parallel(folder: Path, stem: str, count: int, *, mark: str = "") -> None:
    for ending in ("de", "en"):
        lines = (f"{stem} {ending} {i}{mark}\n" for i in range(count))
        put(folder / f"{stem}.{ending}", "".join(lines))


def test_a_folder_with_parts(tmp_path: Path) -> None:
    parallel(tmp_path, "train", 40)
    parallel(tmp_path, "val", 3)
    splits = load_pairs(tmp_path, source="de", target="en", test=0.1)
    assert [len(p) for p in (splits.train, splits.validation, splits.test)] == [36, 3, 4]
    parallel(tmp_path, "test_b", 2)
    parallel(tmp_path, "test_c", 1)
    splits = load_pairs(tmp_path, source="de", target="en")
    assert [len(p) for p in (splits.train, splits.validation, splits.test)] == [40, 3, 2]
    assert load_pair_split(tmp_path, "test_c", source="en", target="de") == (
        SentencePair("test_c en 0", "test_c de 0"),
    )
    parallel(tmp_path, "test", 5)
    assert len(load_pairs(tmp_path, source="de", target="en").test) == 5
    parallel(tmp_path, "dev", 2)
    with pytest.raises(UserError, match=r"both dev\.\* and val\.\*: which one"):
        load_pairs(tmp_path, source="de", target="en")


def test_a_folder_with_one_pair_of_files_or_with_columns(tmp_path: Path) -> None:
    parallel(tmp_path / "one", "europarl-v7.de-en", 40)
    put(tmp_path / "one" / "readme.de", "lies mich")
    assert len(load_pairs(tmp_path / "one", source="de", target="en").train) == 36
    table = "".join(f"brot {i}\tbread {i}\n" for i in range(40))
    put(tmp_path / "columns" / "train.tsv", f"de\ten\n{table}")
    put(tmp_path / "columns" / "dev.jsonl", '{"de": "x", "en": "y"}')
    splits = load_pairs(tmp_path / "columns", source="de", target="en")
    assert [len(p) for p in (splits.train, splits.validation, splits.test)] == [38, 1, 2]


def test_no_part_of_a_folder_is_passed_over(tmp_path: Path) -> None:
    for part, count in (("train", 9), ("val", 2)):
        for ending in ("de", "en"):
            put(tmp_path / f"{part}.{ending}", "".join(f"{part} {k}\n" for k in range(count)))
    put(tmp_path / "train.txt", "no pair\n")  # the pictures that are described, say
    put(tmp_path / "test.tsv", "de\ten\nBrot\tbread\n")
    splits = load_pairs(tmp_path, source="de", target="en")
    assert [len(part) for part in (splits.train, splits.validation)] == [9, 2]
    assert splits.test == (SentencePair("Brot", "bread"),)
    put(tmp_path / "test.csv", "de,en\nBrot,bread\n")
    with pytest.raises(UserError, match="more than one file for test: which one"):
        load_pairs(tmp_path, source="de", target="en")
    (tmp_path / "test.csv").unlink()
    (tmp_path / "val.en").unlink()
    with pytest.raises(UserError, match=r"val\.de, but no val\.en"):
        load_pairs(tmp_path, source="de", target="en")


def test_files_are_nearer_than_a_set_of_their_folders_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "multi30k").mkdir()
    for ending, text in (("de", "Brot"), ("en", "bread")):
        put(tmp_path / "multi30k" / f"mine.{ending}", f"{text}\n")
    found = load_test_pairs("multi30k/mine", source="de", target="en", allow_download=False)
    assert found == (SentencePair("Brot", "bread"),)


def test_a_folder_keeps_to_itself(tmp_path: Path) -> None:
    secret = put(tmp_path / "secret.txt", "secret\n")
    parallel(tmp_path / "set", "train", 40)
    (tmp_path / "set" / "test.de").symlink_to(secret)
    put(tmp_path / "set" / "test.en", "x\n")
    with pytest.raises(UserError, match=r"test\.de: a link that leads out of its folder"):
        load_pairs(tmp_path / "set", source="de", target="en")


@given(SENTENCES)
def test_every_form_reads_the_same(
    tmp_path_factory: pytest.TempPathFactory, some: list[tuple[str, str]]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    pairs = [SentencePair(*both) for both in some]
    one = put(folder / "a.x", "".join(f"{p.source}\n" for p in pairs))
    other = put(folder / "a.y", "".join(f"{p.target}\r\n" for p in pairs))
    tabbed = "".join(f"{p.source}\t{p.target}\n" for p in pairs)
    lines = "".join(json.dumps({"x": p.source, "y": p.target}) + "\n" for p in pairs)
    assert list(read_parallel(one, other)) == pairs
    assert list(read_columns(put(folder / "a.tsv", tabbed), "1", "2")) == pairs
    assert list(read_columns(put(folder / "a.jsonl", lines), "x", "y")) == pairs


LINES = st.binary(max_size=30) | st.lists(
    st.sampled_from([b"a", b"b c", b"", b"\r", b"\xff", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\t"])
).map(b"\n".join)


@given(LINES, LINES, st.sampled_from([0.0, 0.3]))
def test_no_bytes_raise_anything_else(
    tmp_path_factory: pytest.TempPathFactory, one: bytes, other: bytes, share: float
) -> None:
    folder = tmp_path_factory.mktemp("any")
    put(folder / "train.de", one)
    put(folder / "train.en", other)
    table = put(folder / "table.tsv", one + b"\t" + other)
    for data, source, target in ((folder / "train", "de", "en"), (table, "1", "2")):
        with suppress(UserError):
            splits = load_pairs(data, source=source, target=target, validation=share, test=share)
            assert splits.train
            assert bool(splits.test) == bool(splits.validation) == bool(share)
