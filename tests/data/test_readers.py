"""Readers of examples in every format, and their errors."""

import csv
import gzip
import io
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workings.data import FILE_FORMATS, Example, read_examples, read_records
from workings.data.readers import ItemsUntilError, detect_format, read_lines
from workings.errors import UserError

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
LABELS = st.text("abcäö 01", min_size=1).filter(str.strip)


def write(path: Path, content: str | bytes, *, gzipped: bool = False) -> Path:
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(raw) if gzipped else raw)
    return path


def stream(content: str | bytes) -> io.BytesIO:
    return io.BytesIO(content.encode() if isinstance(content, str) else content)


EXAMPLES = [Example("Good, it is.", "positive"), Example('"Bad"', "negative")]
FILES = {
    "csv": 'text,label\r\n"Good, it is.",positive\r\n"""Bad""",negative\r\n',
    "tsv": 'text\tlabel\nGood, it is.\tpositive\n"Bad"\tnegative\n',
    "jsonl": "\n".join(json.dumps({"text": e.text, "label": e.label}) for e in EXAMPLES),
}


@pytest.mark.parametrize("gzipped", [False, True])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("file_format", FILES)
def test_all_formats_give_the_same_examples(
    tmp_path: Path, file_format: str, bom: str, gzipped: bool
) -> None:
    path = write(tmp_path / f"a.{file_format}", bom + FILES[file_format], gzipped=gzipped)
    assert list(read_examples(path)) == EXAMPLES
    assert list(read_examples(str(path), label=None)) == [Example(e.text) for e in EXAMPLES]
    with path.open("rb") as file:
        assert list(read_examples(file, format=file_format)) == EXAMPLES
        assert not file.closed


def test_gzip_is_detected_by_content(tmp_path: Path) -> None:
    assert list(read_examples(write(tmp_path / "a.csv", FILES["csv"], gzipped=True))) == EXAMPLES
    assert list(read_examples(write(tmp_path / "b.csv.gz", FILES["csv"]))) == EXAMPLES


def test_plain_text_keeps_every_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "one\n\ntwo\x85\u2028 \r\nthree")
    assert [e.text for e in read_examples(path)] == ["one", "", "two\x85\u2028 ", "three"]
    assert {e.label for e in read_examples(path)} == {None}


def test_folder_with_a_subfolder_per_class(tmp_path: Path) -> None:
    for name, content in {"pos/b.txt": "B\n", "pos/a.txt": "A", "neg/c.txt": "C"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(tmp_path / name, content)
    write(tmp_path / "neg" / "d.txt.gz", "D", gzipped=True)
    write(tmp_path / "neg" / "notes.md", "ignored")
    write(tmp_path / "README.txt", "ignored")
    (tmp_path / ".git").mkdir()
    assert [(e.text, e.label) for e in read_examples(tmp_path)] == [
        ("C", "neg"),
        ("D", "neg"),
        ("A", "pos"),
        ("B", "pos"),
    ]
    assert {e.label for e in read_examples(tmp_path, label=None)} == {None}


def test_invalid_folders_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="sub-folder for each class"):
        list(read_examples(tmp_path))
    (tmp_path / "pos").mkdir()
    with pytest.raises(UserError, match="no texts: expected"):
        list(read_examples(tmp_path))
    write(tmp_path / "pos" / "a.txt", b"fine\nna\xefve\n")
    with pytest.raises(UserError, match=r"a\.txt, line 2: not UTF-8: byte 0xef in column 3"):
        list(read_examples(tmp_path))
    with pytest.raises(UserError, match="is a folder: expected a csv file"):
        read_examples(tmp_path, format="csv")
    with pytest.raises(UserError, match="is a file: expected a folder"):
        read_examples(tmp_path / "pos" / "a.txt", format="folder")
    with pytest.raises(UserError, match="expected the path of a folder"):
        list(read_examples(stream("x"), format="folder"))


def test_quoted_newlines_and_long_texts() -> None:
    long = "word " * 200_000
    content = f'label,text\n1,"two\nlines\r\nthree"\n2,"{long}"\n3,{long}\n'
    texts = [e.text for e in read_examples(stream(content), format="csv")]
    assert texts == ["two\nlines\r\nthree", long, long]


def test_columns_by_name() -> None:
    content = "id, review ,stars\n1,Good,5\n"
    assert list(read_examples(stream(content), format="csv", text="review", label="stars")) == [
        Example("Good", "5")
    ]
    with pytest.raises(UserError, match=r"no column 'text': the columns are id, review, stars"):
        list(read_examples(stream(content), format="csv"))
    with pytest.raises(UserError, match=r"no column 'label': the columns are id, review, stars"):
        list(read_examples(stream(content), format="csv", text="review"))


def test_columns_of_a_file_without_header() -> None:
    examples = list(
        read_examples(stream("3,Title\n1,Other\n"), format="csv", columns=("label", "text"))
    )
    assert examples == [Example("Title", "3"), Example("Other", "1")]
    with pytest.raises(UserError, match="not for jsonl"):
        read_examples(stream("{}"), format="jsonl", columns=("text",))


def test_labels_are_renamed() -> None:
    content = "text,label\na,0\nb,1\nc,2\n"
    examples = read_examples(
        stream(content), format="csv", label_names={"0": "negative", "1": "positive"}
    )
    assert [e.label for e in examples] == ["negative", "positive", "2"]


def test_csv_with_semicolons() -> None:
    assert list(read_examples(stream("text;label\nGood, it is.;1\n"), format="csv")) == [
        Example("Good, it is.", "1")
    ]


def test_blank_lines_are_ignored() -> None:
    for file_format, content in FILES.items():
        spaced = content.replace("\n", "\n\n") + "\n\n"
        assert list(read_examples(stream(spaced), format=file_format)) == EXAMPLES


@pytest.mark.parametrize(
    ("file_format", "content", "message"),
    [
        ("csv", "text,label\na,1\nb\n", "line 3: 1 fields, but 2 columns"),
        ("csv", "text,label\na,1\nb,2,3\n", "line 3: 3 fields, but 2 columns"),
        ("csv", 'text,label\na,1\n"b,2\nc,3\n', "line 3: not CSV: unexpected end"),
        ("csv", 'text,label\n"a\nb",1\n"c"d,2\n', "line 4: not CSV"),
        ("csv", "text,text\na,1\n", "line 1: the header has the column 'text' twice"),
        ("csv", "text,label\na, \n", "line 2: 'label' is empty"),
        ("csv", "text,label\ra,1\r", "not CSV"),
        ("tsv", "text\tlabel\na\t1\t2\n", "line 2: 3 fields, but 2 columns"),
        ("jsonl", '{"text": "a", "label": 1}\n[1]\n', r"line 2: expected a JSON object, got \[1\]"),
        (
            "jsonl",
            '\n{"text": "a", "lable": 1}\n',
            "line 2: no column 'label': the columns are text",
        ),
        ("jsonl", '{"text": "a", "label": 1}\n{"text": \n', "line 2: not JSON"),
        ("jsonl", '{"text": 3, "label": 1}', "line 1: 'text' is not text but 3"),
        ("jsonl", '{"text": "a", "label": null}', "'label' is not a label but null"),
        ("jsonl", '{"text": "a", "label": [1]}', "'label' is not a label"),
        ("jsonl", '{"text": "a", "label": NaN}', "'label' is not a label"),
        (
            "jsonl",
            '{"text": "a\\ud800b", "label": 1}',
            r"'text' has an unpaired surrogate: \\ud800",
        ),
        ("jsonl", "[" * 100_000, "line 1: not JSON"),
        ("jsonl", "[\n", "line 1: not JSON"),
        ("jsonl", '{"text": "a", "label": 1' + "0" * 5000 + "}", "line 1: not JSON"),
        ("jsonl", "{}", "the columns are none"),
    ],
)
def test_errors_state_the_line(file_format: str, content: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        list(read_examples(stream(content), format=file_format))
    assert "line " in str(error.value)


@pytest.mark.parametrize("file_format", ["csv", "tsv", "jsonl", "text"])
@pytest.mark.parametrize("content", ["", "\ufeff"])
def test_empty_files_are_rejected(tmp_path: Path, file_format: str, content: str) -> None:
    path = write(tmp_path / f"a.{file_format}", content)
    with pytest.raises(UserError, match=rf"a\.{file_format}: empty"):
        list(read_examples(path, format=file_format))


def test_file_with_only_a_header_is_rejected() -> None:
    with pytest.raises(UserError, match="empty"):
        list(read_examples(stream("text,label\n"), format="csv"))


@pytest.mark.parametrize("gzipped", [False, True])
@pytest.mark.parametrize("file_format", ["csv", "tsv", "jsonl", "text"])
def test_invalid_utf8_is_reported_with_line_and_column(
    tmp_path: Path, file_format: str, gzipped: bool
) -> None:
    path = write(tmp_path / "a.b", "text\nä\nTühr".encode() + b"\xfc\n", gzipped=gzipped)
    if file_format == "jsonl":
        path = write(tmp_path / "a.b", b'{"text":1}\n\n{"\xc3\xa4\xfc', gzipped=gzipped)
    with pytest.raises(UserError, match=r"a\.b, line 3: not UTF-8: byte 0xfc in column \d"):
        list(read_records(path, format=file_format))


def test_utf16_is_recognized() -> None:
    with pytest.raises(UserError, match="UTF-16: save it as UTF-8"):
        list(read_examples(stream("text,label\n".encode("utf-16")), format="csv"))


def test_json_labels_may_be_numbers_and_booleans() -> None:
    labels: list[Any] = [0, 1, True, False, 4.5, " spaced "]
    content = "\n".join(json.dumps({"text": "", "label": label}) for label in labels)
    read = [e.label for e in read_examples(stream(content), format="jsonl")]
    assert read == ["0", "1", "true", "false", "4.5", "spaced"]


def test_detect_format(tmp_path: Path) -> None:
    assert detect_format(tmp_path) == "folder"
    assert detect_format("A.NDJSON.GZ") == "jsonl"
    assert detect_format("a.en.gz", "text") == "text"
    for name in ("reviews", "reviews.xlsx", "reviews.gz"):
        with pytest.raises(UserError, match="give the format, one of csv, tsv, jsonl, parquet"):
            detect_format(name)
    with pytest.raises(UserError, match="did you mean 'jsonl'"):
        detect_format("a", "json")
    assert set(FILE_FORMATS) - {"parquet", "arrow", "fasttext"} == {
        "csv",
        "tsv",
        "jsonl",
        "text",
        "folder",
    }


def test_missing_files_are_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        read_examples(tmp_path / "none.csv")
    with pytest.raises(UserError, match="unknown file name suffix"):
        read_examples(stream(""))


def test_examples_are_streamed(tmp_path: Path) -> None:
    lines = [json.dumps({"text": f"{i} " * 2000, "label": 0}).encode() + b"\n" for i in range(2000)]
    path = write(tmp_path / "a.jsonl", b"".join(lines))
    with path.open("rb") as file:
        next(read_examples(file, format="jsonl"))
        assert file.tell() < path.stat().st_size / 2


def test_damaged_gzip_is_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", b"hello\n" * 10_000, gzipped=True)
    raw = path.read_bytes()
    path.write_bytes(raw[:-20])
    with pytest.raises(UserError, match=r"a\.txt: the gzipped file is truncated"):
        list(read_examples(path))
    path.write_bytes(raw[:30] + b"????" + raw[34:])
    with pytest.raises(UserError, match=r"a\.txt: the gzipped file is damaged"):
        list(read_examples(path))


def test_sizes_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workings.data.readers.FREE_EXPANSION_BYTES", 100_000)
    path = write(tmp_path / "a.txt", (b"0" * 999 + b"\n") * 3000, gzipped=True)
    with pytest.raises(UserError, match=r"more than .* bytes, over 100 times its size"):
        list(read_examples(path))
    monkeypatch.setattr("workings.data.readers.MAX_LINE_BYTES", 1000)
    with pytest.raises(UserError, match=r"line 2: longer than 1,000 bytes"):
        list(read_examples(stream(b"short\n" + b"0" * 1001), format="text"))
    (tmp_path / "folder" / "a").mkdir(parents=True)
    write(tmp_path / "folder" / "a" / "b.txt", b"0" * 1001)
    with pytest.raises(UserError, match=r"b\.txt: longer than 1,000 bytes"):
        list(read_examples(tmp_path / "folder"))


def test_unreadable_file_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = write(tmp_path / "a.txt", "x")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UserError, match=r"a\.txt: Permission denied"):
        list(read_examples(path))


@given(st.lists(st.tuples(TEXTS, LABELS), min_size=1))
def test_csv_round_trip(pairs: list[tuple[str, str]]) -> None:
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerows([("label", "text"), *((label, text) for text, label in pairs)])
    examples = list(read_examples(stream(file.getvalue()), format="csv"))
    assert examples == [Example(text, label.strip()) for text, label in pairs]


@given(st.lists(st.tuples(TEXTS, LABELS), min_size=1), st.booleans())
def test_jsonl_round_trip(pairs: list[tuple[str, str]], ascii_only: bool) -> None:
    lines = (json.dumps({"text": t, "label": l}, ensure_ascii=ascii_only) for t, l in pairs)
    examples = list(read_examples(stream("\n".join(lines)), format="jsonl"))
    assert examples == [Example(text, label.strip()) for text, label in pairs]


@given(st.lists(TEXTS.filter(lambda t: not set(t) & set("\r\n")), min_size=1))
def test_text_round_trip(texts: list[str]) -> None:
    read = [e.text for e in read_examples(stream("".join(f"{t}\n" for t in texts)), format="text")]
    assert read == [texts[0].removeprefix("\ufeff"), *texts[1:]]


@given(st.binary(), st.sampled_from(["csv", "tsv", "jsonl", "text"]))
def test_arbitrary_bytes_raise_only_user_errors(raw: bytes, file_format: str) -> None:
    with suppress(UserError):
        list(read_examples(io.BytesIO(raw), format=file_format))


def test_header_with_many_columns_is_read_quickly() -> None:
    """Looking up every name in the list of all of them would take an hour."""
    header = ",".join(f"c{i}" for i in range(200_000))
    records = list(read_records(stream(f"{header}\n{header}\n"), format="csv"))
    assert len(records[0].fields) == 200_000
    with pytest.raises(UserError, match="has the column 'c7' twice"):
        list(read_records(stream(f"{header},c7\n{header}\n"), format="csv"))


@pytest.mark.parametrize(
    ("file_format", "content"),
    [
        ("csv", f'"te\nxt",{"l" * 9999}\na,b\n'),
        ("csv", f'"te\nxt","te\nxt",{"l" * 9999}\na,b\n'),
        ("csv", ",".join(map(str, range(9999))) + "\n" + ",".join(["x"] * 9999)),
        ("tsv", "te\x1ext\tlabel\na\tb\n"),
        ("jsonl", json.dumps({"te\nxt" * 999: 1})),
        ("jsonl", json.dumps({"text": ["a\nb"] * 999})),
        ("jsonl", '{"text": ' + "[" * 900 + "]" * 900 + "}"),
        ("jsonl", '{"x' + r"\n" * 999 + r'": "\ud800"}'),
    ],
)
def test_errors_are_one_line(file_format: str, content: str) -> None:
    with pytest.raises(UserError) as caught:
        list(read_examples(stream(content), format=file_format))
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 600


def test_links_out_of_the_folder_and_pipes_are_rejected(tmp_path: Path) -> None:
    """Links inside the folder are followed."""
    secret = write(tmp_path / "secret.txt", "secret")
    folder = tmp_path / "set"
    for name in ("neg", "pos"):
        (folder / name).mkdir(parents=True)
        write(folder / name / "a.txt", name)
    (folder / "pos" / "b.txt").symlink_to(folder / "neg" / "a.txt")
    assert [e.text for e in read_examples(folder)] == ["neg", "pos", "neg"]
    (folder / "pos" / "c.txt").symlink_to(secret)
    with pytest.raises(UserError, match=r"c\.txt: a link that leads out of its folder"):
        list(read_examples(folder))
    (folder / "pos" / "c.txt").unlink()
    os.mkfifo(folder / "pos" / "c.txt")
    with pytest.raises(UserError, match=r"c\.txt: a pipe or a device"):
        list(read_examples(folder))
    (folder / "pos" / "c.txt").unlink()
    (tmp_path / "elsewhere").mkdir()
    (folder / "away").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="away: a link that leads out of its folder"):
        list(read_examples(folder))


@pytest.mark.skipif(sys.platform != "linux", reason="file names are Unicode on other systems")
def test_class_names_must_be_utf8(tmp_path: Path) -> None:
    class_folder = tmp_path / os.fsdecode(b"caf\xe9")
    class_folder.mkdir()
    write(class_folder / "a.txt", "x")
    with pytest.raises(UserError, match="the folder name is not UTF-8"):
        list(read_examples(tmp_path))


def test_real_reviews(data: Path) -> None:
    examples = list(read_examples(data / "rt-polarity" / "mr.jsonl.gz"))
    assert [sum(e.label == label for e in examples) for label in "01"] == [5331, 5331]
    pairs = read_records(data / "eng-fra" / "fra.txt.gz", format="tsv", columns=("en", "fr"))
    assert next(pairs).fields.keys() == {"en", "fr"}


def test_items_until_error_defers_the_error() -> None:
    lines = ItemsUntilError(read_lines(stream(b"one\ntwo\n\xff\nfour\n")))
    assert [line for _, line in lines] == ["one\n", "two\n"]
    with pytest.raises(UserError, match="line 3: not UTF-8"):
        lines.raise_error()
    complete = ItemsUntilError([1, 2])
    assert list(complete) == [1, 2]
    complete.raise_error()


def test_items_until_error_raises_other_errors_at_once() -> None:
    with pytest.raises(ZeroDivisionError):
        list(ItemsUntilError(1 // k for k in (1, 0)))
