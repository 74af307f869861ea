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
from workings.data.readers import detect_format
from workings.errors import UserError

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
LABELS = st.text("abcäö 01", min_size=1).filter(str.strip)


def put(path: Path, content: str | bytes, *, packed: bool = False) -> Path:
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(raw) if packed else raw)
    return path


def stream(content: str | bytes) -> io.BytesIO:
    return io.BytesIO(content.encode() if isinstance(content, str) else content)


SAME = [Example("Good, it is.", "positive"), Example('"Bad"', "negative")]
FORMS = {
    "csv": 'text,label\r\n"Good, it is.",positive\r\n"""Bad""",negative\r\n',
    "tsv": 'text\tlabel\nGood, it is.\tpositive\n"Bad"\tnegative\n',
    "jsonl": "\n".join(json.dumps({"text": e.text, "label": e.label}) for e in SAME),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("form", FORMS)
def test_every_format_reads_the_same(tmp_path: Path, form: str, bom: str, packed: bool) -> None:
    path = put(tmp_path / f"a.{form}", bom + FORMS[form], packed=packed)
    assert list(read_examples(path)) == SAME
    assert list(read_examples(str(path), label=None)) == [Example(e.text) for e in SAME]
    with path.open("rb") as file:
        assert list(read_examples(file, format=form)) == SAME
        assert not file.closed


def test_gzip_is_told_by_its_bytes(tmp_path: Path) -> None:
    assert list(read_examples(put(tmp_path / "a.csv", FORMS["csv"], packed=True))) == SAME
    assert list(read_examples(put(tmp_path / "b.csv.gz", FORMS["csv"]))) == SAME


def test_plain_text_keeps_every_line(tmp_path: Path) -> None:
    path = put(tmp_path / "a.txt", "one\n\ntwo\x85\u2028 \r\nthree")
    assert [e.text for e in read_examples(path)] == ["one", "", "two\x85\u2028 ", "three"]
    assert {e.label for e in read_examples(path)} == {None}


def test_a_folder_for_each_class(tmp_path: Path) -> None:
    for name, content in {"pos/b.txt": "B\n", "pos/a.txt": "A", "neg/c.txt": "C"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        put(tmp_path / name, content)
    put(tmp_path / "neg" / "d.txt.gz", "D", packed=True)
    put(tmp_path / "neg" / "notes.md", "not this")
    put(tmp_path / "README.txt", "nor this")
    (tmp_path / ".git").mkdir()
    assert [(e.text, e.label) for e in read_examples(tmp_path)] == [
        ("C", "neg"),
        ("D", "neg"),
        ("A", "pos"),
        ("B", "pos"),
    ]
    assert {e.label for e in read_examples(tmp_path, label=None)} == {None}


def test_folder_errors(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="sub-folder for each class"):
        list(read_examples(tmp_path))
    (tmp_path / "pos").mkdir()
    with pytest.raises(UserError, match="without texts"):
        list(read_examples(tmp_path))
    put(tmp_path / "pos" / "a.txt", b"fine\nna\xefve\n")
    with pytest.raises(UserError, match=r"a\.txt, line 2: not UTF-8: byte 0xef in column 3"):
        list(read_examples(tmp_path))
    with pytest.raises(UserError, match="a folder: not csv"):
        read_examples(tmp_path, format="csv")
    with pytest.raises(UserError, match="no folder: not folder"):
        read_examples(tmp_path / "pos" / "a.txt", format="folder")
    with pytest.raises(UserError, match="by its path"):
        list(read_examples(stream("x"), format="folder"))


def test_quoted_newlines_and_long_texts() -> None:
    long = "word " * 200_000
    content = f'label,text\n1,"two\nlines\r\nthree"\n2,"{long}"\n3,{long}\n'
    found = [e.text for e in read_examples(stream(content), format="csv")]
    assert found == ["two\nlines\r\nthree", long, long]


def test_columns_by_name() -> None:
    content = "id, review ,stars\n1,Good,5\n"
    assert list(read_examples(stream(content), format="csv", text="review", label="stars")) == [
        Example("Good", "5")
    ]
    with pytest.raises(UserError, match=r"no column 'text': there are id, review, stars"):
        list(read_examples(stream(content), format="csv"))
    with pytest.raises(UserError, match=r"no column 'label': there are id, review, stars"):
        list(read_examples(stream(content), format="csv", text="review"))


def test_columns_of_a_file_without_header() -> None:
    found = list(
        read_examples(stream("3,Title\n1,Other\n"), format="csv", columns=("label", "text"))
    )
    assert found == [Example("Title", "3"), Example("Other", "1")]
    with pytest.raises(UserError, match="not in jsonl"):
        read_examples(stream("{}"), format="jsonl", columns=("text",))


def test_labels_are_renamed() -> None:
    content = "text,label\na,0\nb,1\nc,2\n"
    found = read_examples(
        stream(content), format="csv", label_names={"0": "negative", "1": "positive"}
    )
    assert [e.label for e in found] == ["negative", "positive", "2"]


def test_semicolons() -> None:
    assert list(read_examples(stream("text;label\nGood, it is.;1\n"), format="csv")) == [
        Example("Good, it is.", "1")
    ]


def test_blank_lines_are_no_records() -> None:
    for form, content in FORMS.items():
        spaced = content.replace("\n", "\n\n") + "\n\n"
        assert list(read_examples(stream(spaced), format=form)) == SAME


@pytest.mark.parametrize(
    ("form", "content", "said"),
    [
        ("csv", "text,label\na,1\nb\n", "line 3: 1 fields, but 2 columns"),
        ("csv", "text,label\na,1\nb,2,3\n", "line 3: 3 fields, but 2 columns"),
        ("csv", 'text,label\na,1\n"b,2\nc,3\n', "line 3: not CSV: unexpected end"),
        ("csv", 'text,label\n"a\nb",1\n"c"d,2\n', "line 4: not CSV"),
        ("csv", "text,text\na,1\n", "line 1: the header names 'text' twice"),
        ("csv", "text,label\na, \n", "line 2: 'label' is empty"),
        ("csv", "text,label\ra,1\r", "not CSV"),
        ("tsv", "text\tlabel\na\t1\t2\n", "line 2: 3 fields, but 2 columns"),
        ("jsonl", '{"text": "a", "label": 1}\n[1]\n', r"line 2: not a JSON object.*\[1\]"),
        ("jsonl", '\n{"text": "a", "lable": 1}\n', "line 2: no column 'label': there are text"),
        ("jsonl", '{"text": "a", "label": 1}\n{"text": \n', "line 2: not JSON"),
        ("jsonl", '{"text": 3, "label": 1}', "line 1: 'text' is not text but 3"),
        ("jsonl", '{"text": "a", "label": null}', "'label' is not a label but null"),
        ("jsonl", '{"text": "a", "label": [1]}', "'label' is not a label"),
        ("jsonl", '{"text": "a", "label": NaN}', "'label' is not a label"),
        ("jsonl", '{"text": "a\\ud800b", "label": 1}', r"holds half a character: \\ud800"),
        ("jsonl", "[" * 100_000, "line 1: not JSON"),
        ("jsonl", "[\n", "line 1: not JSON"),
        ("jsonl", '{"text": "a", "label": 1' + "0" * 5000 + "}", "line 1: not JSON"),
        ("jsonl", "{}", "there are none"),
    ],
)
def test_errors_name_the_line(form: str, content: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as error:
        list(read_examples(stream(content), format=form))
    assert "line " in str(error.value)


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "text"])
@pytest.mark.parametrize("content", ["", "\ufeff"])
def test_empty_files(tmp_path: Path, form: str, content: str) -> None:
    path = put(tmp_path / f"a.{form}", content)
    with pytest.raises(UserError, match=rf"a\.{form}: empty"):
        list(read_examples(path, format=form))


def test_a_header_alone_is_empty() -> None:
    with pytest.raises(UserError, match="empty"):
        list(read_examples(stream("text,label\n"), format="csv"))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "text"])
def test_not_utf_8(tmp_path: Path, form: str, packed: bool) -> None:
    path = put(tmp_path / "a.b", "text\nä\nTühr".encode() + b"\xfc\n", packed=packed)
    if form == "jsonl":
        path = put(tmp_path / "a.b", b'{"text":1}\n\n{"\xc3\xa4\xfc', packed=packed)
    with pytest.raises(UserError, match=r"a\.b, line 3: not UTF-8: byte 0xfc in column \d"):
        list(read_records(path, format=form))


def test_utf_16_is_named() -> None:
    with pytest.raises(UserError, match="UTF-16: save it as UTF-8"):
        list(read_examples(stream("text,label\n".encode("utf-16")), format="csv"))


def test_labels_as_json_writes_them() -> None:
    labels: list[Any] = [0, 1, True, False, 4.5, " spaced "]
    content = "\n".join(json.dumps({"text": "", "label": label}) for label in labels)
    found = [e.label for e in read_examples(stream(content), format="jsonl")]
    assert found == ["0", "1", "true", "false", "4.5", "spaced"]


def test_formats(tmp_path: Path) -> None:
    assert detect_format(tmp_path) == "folder"
    assert detect_format("A.NDJSON.GZ") == "jsonl"
    assert detect_format("a.en.gz", "text") == "text"
    for name in ("reviews", "reviews.xlsx", "reviews.gz"):
        with pytest.raises(UserError, match="give one of csv, tsv, jsonl, text, folder"):
            detect_format(name)
    with pytest.raises(UserError, match="did you mean 'jsonl'"):
        detect_format("a", "json")
    assert set(FILE_FORMATS) == {"csv", "tsv", "jsonl", "text", "folder"}


def test_errors_come_before_the_first_example(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        read_examples(tmp_path / "none.csv")
    with pytest.raises(UserError, match="tells no format"):
        read_examples(stream(""))


def test_streams_without_reading_ahead(tmp_path: Path) -> None:
    lines = [json.dumps({"text": f"{i} " * 2000, "label": 0}).encode() + b"\n" for i in range(2000)]
    path = put(tmp_path / "a.jsonl", b"".join(lines))
    with path.open("rb") as file:
        found = read_examples(file, format="jsonl")
        next(found)
        assert file.tell() < path.stat().st_size / 2


def test_damaged_gzip(tmp_path: Path) -> None:
    path = put(tmp_path / "a.txt", b"hello\n" * 10_000, packed=True)
    raw = path.read_bytes()
    path.write_bytes(raw[:-20])
    with pytest.raises(UserError, match=r"a\.txt: the gzip'd file is cut short"):
        list(read_examples(path))
    path.write_bytes(raw[:30] + b"????" + raw[34:])
    with pytest.raises(UserError, match=r"a\.txt: the gzip'd file is damaged"):
        list(read_examples(path))


def test_bombs_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workings.data.readers.FREE_EXPANSION_BYTES", 100_000)
    path = put(tmp_path / "a.txt", (b"0" * 999 + b"\n") * 3000, packed=True)
    with pytest.raises(UserError, match=r"more than .* bytes, 100 times its size"):
        list(read_examples(path))
    monkeypatch.setattr("workings.data.readers.MAX_LINE_BYTES", 1000)
    with pytest.raises(UserError, match=r"line 2: longer than 1,000 bytes"):
        list(read_examples(stream(b"short\n" + b"0" * 1001), format="text"))
    (tmp_path / "folder" / "a").mkdir(parents=True)
    put(tmp_path / "folder" / "a" / "b.txt", b"0" * 1001)
    with pytest.raises(UserError, match=r"b\.txt: longer than 1,000 bytes"):
        list(read_examples(tmp_path / "folder"))


def test_what_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = put(tmp_path / "a.txt", "x")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UserError, match=r"a\.txt: Permission denied"):
        list(read_examples(path))


@given(st.lists(st.tuples(TEXTS, LABELS), min_size=1))
def test_csv_round_trip(pairs: list[tuple[str, str]]) -> None:
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerows([("label", "text"), *((label, text) for text, label in pairs)])
    found = list(read_examples(stream(file.getvalue()), format="csv"))
    assert found == [Example(text, label.strip()) for text, label in pairs]


@given(st.lists(st.tuples(TEXTS, LABELS), min_size=1), st.booleans())
def test_jsonl_round_trip(pairs: list[tuple[str, str]], ascii_only: bool) -> None:
    lines = (json.dumps({"text": t, "label": l}, ensure_ascii=ascii_only) for t, l in pairs)
    found = list(read_examples(stream("\n".join(lines)), format="jsonl"))
    assert found == [Example(text, label.strip()) for text, label in pairs]


@given(st.lists(TEXTS.filter(lambda t: not set(t) & set("\r\n")), min_size=1))
def test_text_round_trip(texts: list[str]) -> None:
    found = [e.text for e in read_examples(stream("".join(f"{t}\n" for t in texts)), format="text")]
    assert found == [texts[0].removeprefix("\ufeff"), *texts[1:]]


@given(st.binary(), st.sampled_from(["csv", "tsv", "jsonl", "text"]))
def test_no_bytes_raise_anything_else(raw: bytes, form: str) -> None:
    with suppress(UserError):
        list(read_examples(io.BytesIO(raw), format=form))


def test_a_header_of_very_many_columns() -> None:
    """Which took an hour once: every name was looked for in all of them."""
    header = ",".join(f"c{i}" for i in range(200_000))
    found = list(read_records(stream(f"{header}\n{header}\n"), format="csv"))
    assert len(found[0].fields) == 200_000
    with pytest.raises(UserError, match="names 'c7' twice"):
        list(read_records(stream(f"{header},c7\n{header}\n"), format="csv"))


@pytest.mark.parametrize(
    ("form", "content"),
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
def test_errors_stay_on_one_line(form: str, content: str) -> None:
    with pytest.raises(UserError) as caught:
        list(read_examples(stream(content), format=form))
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 600


def test_a_folder_keeps_to_itself(tmp_path: Path) -> None:
    """Links inside are followed; out of it, none; and nobody waits at a pipe."""
    secret = put(tmp_path / "secret.txt", "secret")
    folder = tmp_path / "set"
    for name in ("neg", "pos"):
        (folder / name).mkdir(parents=True)
        put(folder / name / "a.txt", name)
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


@pytest.mark.skipif(sys.platform != "linux", reason="names are Unicode here")
def test_the_name_of_a_class_is_text(tmp_path: Path) -> None:
    place = tmp_path / os.fsdecode(b"caf\xe9")
    place.mkdir()
    put(place / "a.txt", "x")
    with pytest.raises(UserError, match="its name is not UTF-8"):
        list(read_examples(tmp_path))


def test_real_reviews(data: Path) -> None:
    found = list(read_examples(data / "rt-polarity" / "mr.jsonl.gz"))
    assert [sum(e.label == label for e in found) for label in "01"] == [5331, 5331]
    pairs = read_records(data / "eng-fra" / "fra.txt.gz", format="tsv", columns=("en", "fr"))
    assert next(pairs).fields.keys() == {"en", "fr"}
