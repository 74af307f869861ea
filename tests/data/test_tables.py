"""Parquet, Arrow and Hugging Face's datasets are read as CSV is; so are fastText's files."""

import json

import pytest

from workings import UserError, train
from workings.data import load_dataset, load_pairs, read_examples
from workings.data.corpora import read_corpus
from workings.data.readers import Example

pa = pytest.importorskip("pyarrow")
EXAMPLES = [Example("good film", "pos"), Example("bad film", "neg"), Example("fine", "pos")]
FEATURES = {"label": {"names": ["neg", "pos"], "_type": "ClassLabel"}, "text": {"_type": "Value"}}


def make_table(*, class_labels=False):
    """Return the examples as a table, with names or with numbers of classes as datasets has."""
    columns = {"id": [1, 2, 3], "text": [e.text for e in EXAMPLES]}
    labels = [e.label for e in EXAMPLES]
    columns["label"] = [("neg", "pos").index(x) for x in labels] if class_labels else labels
    table = pa.table(columns)
    metadata = {"huggingface": json.dumps({"info": {"features": FEATURES}})}
    return table.replace_schema_metadata(metadata) if class_labels else table


def write_table(path, table):
    if path.suffix == ".parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, path)
    else:
        new = pa.ipc.new_file if path.suffix == ".feather" else pa.ipc.new_stream
        with pa.OSFile(str(path), "wb") as file, new(file, table.schema) as writer:
            writer.write_table(table)
    return path


def save_to_disk(folder, table):
    """Write what `Dataset.save_to_disk` writes."""
    folder.mkdir(parents=True)
    write_table(folder / "data-00000-of-00001.arrow", table)
    (folder / "dataset_info.json").write_text(json.dumps({"features": FEATURES}))
    (folder / "state.json").write_text("{}")
    return folder


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.feather"])
@pytest.mark.parametrize("class_labels", [False, True])
def test_tables(tmp_path, name, class_labels):
    path = write_table(tmp_path / name, make_table(class_labels=class_labels))
    assert list(read_examples(path)) == EXAMPLES


def test_saved_datasets(tmp_path):
    folder = save_to_disk(tmp_path / "one", make_table(class_labels=True))
    assert list(read_examples(folder)) == EXAMPLES
    for split in ("train", "test"):
        save_to_disk(tmp_path / "two" / split, make_table(class_labels=True))
    (tmp_path / "two" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    splits = load_dataset(tmp_path / "two", validation=0.0)
    assert (list(splits.train), list(splits.test)) == (EXAMPLES, EXAMPLES)
    (tmp_path / "two" / "dataset_dict.json").write_text('{"splits": ["../one"]}')
    with pytest.raises(UserError, match="leads out of its folder"):
        load_dataset(tmp_path / "two")


@pytest.mark.slow
def test_datasets_of_the_library(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])}
    )
    rows = {"text": [e.text for e in EXAMPLES], "label": [e.label for e in EXAMPLES]}
    dataset = datasets.Dataset.from_dict(rows, features=features)
    dataset.save_to_disk(tmp_path / "one")
    datasets.DatasetDict({"train": dataset, "test": dataset}).save_to_disk(tmp_path / "two")
    dataset.to_parquet(tmp_path / "a.parquet")
    assert list(read_examples(tmp_path / "one")) == EXAMPLES
    assert list(load_dataset(tmp_path / "two", validation=0.0).test) == EXAMPLES
    assert list(read_examples(tmp_path / "a.parquet")) == EXAMPLES
    with pytest.raises(UserError, match=r"hf:.*cannot be loaded"):
        load_dataset(f"hf:{tmp_path}/nowhere")
    pairs = [{"translation": {"en": f"one {i}", "fr": f"un {i}"}} for i in range(40)]
    hub = {"train": datasets.Dataset.from_list(pairs)}
    monkeypatch.setattr("workings.data.datasets.load_hub_dataset", lambda _: hub)
    splits = load_pairs("hf:books", source="translation.en", target="translation.fr")
    assert len(splits.train) + len(splits.validation) + len(splits.test) == 40
    assert "".join(read_corpus("hf:books", "translation.en")).startswith("one 0\none 1\n")
    many = datasets.DatasetDict({"train": datasets.concatenate_datasets([dataset] * 9)})
    assert train(task="classify", data=many, minutes=0.1).labels == ("neg", "pos")


def test_sentence_pairs_and_texts(tmp_path):
    pairs = [{"en": f"one {i}", "fr": f"un {i}"} for i in range(40)]
    path = write_table(tmp_path / "pairs.parquet", pa.table({"translation": pairs}))
    splits = load_pairs(path, source="translation.en", target="translation.fr")
    assert len(splits.train) + len(splits.validation) + len(splits.test) == 40
    assert splits.train[0].target == splits.train[0].source.replace("one", "un")
    assert "".join(read_corpus(str(path), "translation.en")).splitlines()[:2] == ["one 0", "one 1"]


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.feather"])
@pytest.mark.parametrize("content", [b"", b"PAR1 no table", b"ARROW1\0\0 no table"])
def test_broken_tables_are_an_error_of_one_line(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(
        UserError, match=r"not a table that pyarrow can read|empty: no examples"
    ) as e:
        list(read_examples(tmp_path / name))
    assert "\n" not in str(e.value)


def test_rows_without_a_text_or_a_label(tmp_path):
    table = pa.table({"text": ["a", None, "c", " "], "label": ["x", "y", None, "z"]})
    path = write_table(tmp_path / "a.parquet", table)
    assert list(read_examples(path, skip_missing=True)) == [Example("a", "x")]
    with pytest.raises(UserError, match="row 2: 'text' is not text but null"):
        list(read_examples(path))


def test_fasttext(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("__label__pos good film\n\n__label__neg bad film\n__label__pos fine\n")
    assert list(read_examples(path)) == EXAMPLES
    path.write_text("__label__a x\nno label\n")
    with pytest.raises(UserError, match="line 2: no label: expected __label__NAME and a text"):
        list(read_examples(path))
    path.write_text("__label__a __label__b x\n")
    with pytest.raises(UserError, match=r"line 1: .*several labels need data\.multi_label"):
        list(read_examples(path))


def test_columns_by_number(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("pos,good film\nneg,bad film\npos,fine\n")
    assert list(read_examples(path, text="2", label="1")) == EXAMPLES
    path.write_text("pos\tgood film\nneg\tbad film\npos\tfine\n")  # tabs in a .csv file
    assert list(read_examples(path, text="2", label="1")) == EXAMPLES
