"""Splits in several files, in the folders that repositories of datasets have."""

import json

import pytest

from workings import UserError
from workings.automatic.planning import plan_corpus, plan_labeled_data, plan_pairs
from workings.data import load_dataset, load_pairs, read_examples
from workings.data.corpora import read_corpus


def write_shards(folder, split, rows, count=2):
    folder.mkdir(parents=True, exist_ok=True)
    for k in range(count):
        lines = "".join(json.dumps(row) + "\n" for row in rows[k::count])
        (folder / f"{split}-{k:05}-of-{count:05}.jsonl").write_text(lines, encoding="utf-8")
    return folder


def make_rows(count, start=0):
    return [{"text": f"a text {i}", "label": "ab"[i % 2]} for i in range(start, start + count)]


@pytest.mark.parametrize("inner", ["", "data", "plain_text"])
def test_a_copy_of_a_repository(tmp_path, inner):
    write_shards(tmp_path / inner, "train", make_rows(30))
    write_shards(tmp_path / inner, "test", make_rows(6, start=30), count=1)
    (tmp_path / "README.md").write_text("# A dataset", encoding="utf-8")
    splits = load_dataset(tmp_path, validation=0.0)
    assert [len(splits.train), len(splits.test)] == [30, 6]
    assert len(list(read_examples(tmp_path / inner / "train-00001-of-00002.jsonl"))) == 30
    assert plan_labeled_data(str(tmp_path), {}).statistics.rows == 30
    section = plan_corpus(str(tmp_path), {}).section
    assert "".join(read_corpus(str(tmp_path), section["text"])).count("a text ") == 30


def test_sentence_pairs_in_json_objects(tmp_path):
    rows = [{"translation": {"en": f"wine {i}", "fr": f"vin {i}"}} for i in range(40)]
    write_shards(tmp_path / "data", "train", rows)
    section = plan_pairs(str(tmp_path), {}).section
    assert (section["source"], section["target"]) == ("translation.en", "translation.fr")
    pairs = load_pairs(tmp_path, source="translation.en", target="translation.fr")
    assert len(pairs.train) + len(pairs.validation) + len(pairs.test) == 40


def test_a_missing_shard_and_several_datasets_are_told(tmp_path):
    write_shards(tmp_path / "one", "train", make_rows(9), count=3)
    (tmp_path / "one" / "train-00001-of-00003.jsonl").unlink()
    with pytest.raises(UserError, match=r"3 files: train-00001-of-00003\.jsonl is missing"):
        load_dataset(tmp_path / "one")
    write_shards(tmp_path / "two" / "de", "train", make_rows(9))
    write_shards(tmp_path / "two" / "fr", "train", make_rows(9))
    with pytest.raises(UserError, match="give the folder of one of de, fr"):
        load_dataset(tmp_path / "two")


def test_a_class_may_have_the_name_of_a_split(tmp_path):
    for label in ("data", "train"):
        (tmp_path / label).mkdir()
        (tmp_path / label / "train.txt").write_text(f"about {label}", encoding="utf-8")
    assert {e.label for e in load_dataset(tmp_path, test=0.0).train} == {"data", "train"}


# -- several labels --------------------------------------------------------------------------------


def write_labels(path, labels):
    lines = (json.dumps({"text": f"text {i}", "tags": x}) for i, x in enumerate(labels))
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def test_lists_of_labels_are_several(tmp_path):
    data = write_labels(tmp_path / "a.jsonl", [["x"], ["x", "y"], ["y", "z"], ["z"]] * 9)
    plan = plan_labeled_data(data, {})
    assert (plan.section["label"], plan.section["multi_label"]) == ("tags", True)
    assert plan.statistics.classes == 3
    assert "3 labels, several per text" in plan.lines[1]


def test_several_labels_of_fasttext(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("__label__x one\n__label__x  __label__y two words\n" * 9, encoding="utf-8")
    assert plan_labeled_data(str(path), {}).section["multi_label"] is True
    second = list(read_examples(path, label_delimiter=","))[1]
    assert (second.text, second.labels) == ("two words", ("x", "y"))


@pytest.mark.parametrize(("stated", "classes"), [({}, 3), ({"multi_label": True}, 2)])
def test_labels_in_one_column_may_be_several(tmp_path, stated, classes):
    data = write_labels(tmp_path / "a.jsonl", ["x", "x,y", "y"] * 9)
    plan = plan_labeled_data(data, stated)
    assert plan.statistics.classes == classes
    assert any("--data.multi_label true" in line for line in plan.lines) is not bool(stated)
