"""Weights as Hugging Face stores them: safetensors and .bin, one file or several, hostile ones."""

import io
import json
import pickle
import zipfile

import pytest
import torch
from safetensors.torch import save_file

from workings.errors import UserError
from workings.interop.weights import find_weights_file, read_weights

TENSORS = {"a": torch.arange(6.0).view(2, 3), "b": torch.ones(4, dtype=torch.bfloat16)}


class Exploit:
    """An object whose pickle creates a file when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def assert_tensors(tensors, expected=TENSORS):
    assert tensors.keys() == expected.keys()
    for name, tensor in tensors.items():
        assert torch.equal(tensor, expected[name])


def test_files_are_found_in_order(tmp_path):
    with pytest.raises(UserError, match=r"expected model\.safetensors or pytorch_model\.bin"):
        find_weights_file(tmp_path)
    names = ["model.safetensors", "pytorch_model.bin"]
    for name in [n + suffix for n in reversed(names) for suffix in (".index.json", "")]:
        (tmp_path / name).touch()
        assert find_weights_file(tmp_path).name == name


@pytest.mark.parametrize("is_zip", [True, False])
def test_bin_files_of_both_formats_are_read(is_zip, tmp_path):
    path = tmp_path / "pytorch_model.bin"
    torch.save(TENSORS, path, _use_new_zipfile_serialization=is_zip)
    assert_tensors(read_weights(path))


@pytest.mark.parametrize("suffix", ["safetensors", "bin"])
def test_shards_are_read(suffix, tmp_path):
    index = tmp_path / ("model.safetensors.index.json" if suffix[0] == "s" else "x.bin.index.json")
    save = save_file if suffix == "safetensors" else torch.save
    for name, tensor in TENSORS.items():
        save({name: tensor}, tmp_path / f"{name}.{suffix}")
    weight_map = {name: f"{name}.{suffix}" for name in TENSORS}
    index.write_text(json.dumps({"weight_map": weight_map}))
    assert_tensors(read_weights(index))
    for changes, message in [
        ({"c": f"a.{suffix}"}, "c is only in the index"),
        ({"a": f"b.{suffix}"}, "a is only in the index"),
        ({"a": f"../a.{suffix}"}, "not a file of this folder"),
        ({"a": f"/a.{suffix}"}, "not a file of this folder"),
        ({"a": "a.txt"}, f"not the name of a .{suffix} file"),
        ({"a": 1}, f"not the name of a .{suffix} file"),
        ({"a": f"missing.{suffix}"}, "missing"),
    ]:
        index.write_text(json.dumps({"weight_map": weight_map | changes}))
        with pytest.raises(UserError, match=message):
            read_weights(index)
    index.write_text("{}")
    with pytest.raises(UserError, match="expected a weight_map"):
        read_weights(index)


@pytest.mark.parametrize("is_zip", [True, False])
def test_code_in_a_bin_file_is_not_run(is_zip, tmp_path):
    path, trace = tmp_path / "pytorch_model.bin", tmp_path / "executed"
    torch.save({"a": Exploit(trace)}, path, _use_new_zipfile_serialization=is_zip)
    with pytest.raises(UserError, match="has more than tensors and could run code") as error:
        read_weights(path)
    assert "\n" not in str(error.value)
    assert not trace.exists()


def make_bomb():
    """A .bin file whose records are compressed to a thousandth."""
    plain, bomb = io.BytesIO(), io.BytesIO()
    torch.save({"a": torch.zeros(2**20)}, plain)
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as out:
        for name in source.namelist():
            out.writestr(name, source.read(name))
    return bomb.getvalue()


def save_bytes(table):
    file = io.BytesIO()
    torch.save(table, file)
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lambda: b"", "damaged"),
        (lambda: b"PK\x03\x04 not a zip", "damaged"),
        (lambda: pickle.dumps({"a": 1}), "damaged"),
        (lambda: save_bytes(TENSORS)[:-40], "damaged"),
        (lambda: save_bytes([torch.ones(2)]), "expected a dictionary of tensors"),
        (lambda: save_bytes({}), "expected a dictionary of tensors"),
        (lambda: save_bytes({"a": 1}), "'a' is not a named tensor"),
        (lambda: save_bytes({1: torch.ones(2)}), "1 is not a named tensor"),
        (lambda: save_bytes({"a": torch.ones(1).expand(2**40)}), "a is not a tensor of plain"),
        (lambda: save_bytes({"a": torch.ones(3).to_sparse()}), "not a tensor of plain"),
        (lambda: save_bytes({"a": torch.tensor([1.0, torch.nan])}), "a has NaN or infinite"),
        (make_bomb, "parts are larger than the file"),
    ],
)
def test_hostile_bin_files_are_one_line_of_error(content, message, tmp_path):
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(content())
    with pytest.raises(UserError, match=message) as error:
        read_weights(path)
    assert "\n" not in str(error.value)


def test_links_are_refused(tmp_path):
    torch.save(TENSORS, tmp_path / "weights.bin")
    (tmp_path / "pytorch_model.bin").symlink_to(tmp_path / "weights.bin")
    with pytest.raises(UserError, match="a symbolic link"):
        read_weights(tmp_path / "pytorch_model.bin")
