"""Files of runs: invalid headers, the safetensors format, checksums of every byte."""

import json
import os
import re
import struct
from pathlib import Path

import pytest
import safetensors.torch
import torch
from damage import error_message

from workings import storage
from workings.errors import UserError
from workings.storage import (
    CorruptFileError,
    export_tensors,
    import_tensors,
    read_json,
    read_tensors,
    write_json,
    write_tensors,
)


def test_no_module_reads_pickles():
    for file in Path(storage.__file__).parent.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"^\s*(import|from) pickle", text, re.MULTILINE), file
        # Foreign weights may be a pickle: torch's restricted reader builds tensors only.
        loads = re.findall(r"torch\.load\(", text)
        assert len(loads) <= text.count("weights_only=True"), file
        assert not loads or file.name == "weights.py", file
        # torch.distributed pickles the objects that these functions send.
        assert not re.search(r"(gather|broadcast|scatter|send|recv)_object", text), file


def header(table, length=None, data=b""):
    raw = table if isinstance(table, bytes) else json.dumps(table, separators=(",", ":")).encode()
    raw += b" " * (-len(raw) % 8)
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


VALID = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
META = {"__metadata__": {"sha256": "0" * 64}}
INVALID_FILES = {
    "empty": b"",
    "short": b"\1\2\3",
    "no header": header(b"", 0),
    "header of exabytes": header({}, 2**64 - 1),
    "header of gigabytes": header({}, 2**31),
    "header one byte too long": header({}, 9),
    "not JSON": header(b"{{{{{{{{"),
    "deep objects": header(b'{"a":' * 50_000 + b"1" + b"}" * 50_000),
    "deep lists": header(b'{"a":' + b"[" * 900 + b"]" * 900 + b"}"),
    "a list": header([1, 2]),
    "a number": header(b"12345678"),
    "a long number": header(b'{"a":' + b"9" * 5000 + b"}"),
    "not UTF-8": header(b'{"\xff\xfe":1}'),
    "half a character": header(b'{"\\ud800":1}'),
    "no checksum": header({"a": VALID}, data=bytes(8)),
    "checksum not a string": header({"__metadata__": {"sha256": 1}, "a": VALID}, data=bytes(8)),
    "wrong checksum": header(META | {"a": VALID}, data=bytes(8)),
    "overlapping": header(META | {"a": VALID, "b": VALID}, data=bytes(8)),
    "terabytes": header(META | {"a": {**VALID, "shape": [2**40], "data_offsets": [0, 2**42]}}),
    "overflowing": header(META | {"a": {**VALID, "shape": [2**62, 2**62]}}, data=bytes(8)),
    "offsets reversed": header(META | {"a": {**VALID, "data_offsets": [8, 0]}}, data=bytes(8)),
    "offsets negative": header(META | {"a": {**VALID, "data_offsets": [-8, 0]}}, data=bytes(8)),
    "a gap": header(META | {"a": {**VALID, "data_offsets": [8, 16]}}, data=bytes(16)),
    "unknown dtype": header(META | {"a": {**VALID, "dtype": "O"}}, data=bytes(8)),
    "dtype of half a byte": header(
        META | {"a": {"dtype": "F4", "shape": [16], "data_offsets": [0, 8]}}, data=bytes(8)
    ),
    "null": header(META | {"a": None}),
    "duplicate name": header(
        b'{"__metadata__":{"sha256":"0"},"a":' + json.dumps(VALID).encode() + b',"a":1}'
    ),
}


@pytest.mark.parametrize("content", INVALID_FILES.values(), ids=INVALID_FILES)
def test_invalid_tensor_files_are_refused(tmp_path, content):
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    error_message(read_tensors, path)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"format": 2, "a": ' + "[" * 990 + "]" * 990 + "}"]
)
def test_deep_json_is_refused(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_text(text)
    error_message(read_json, path)


def test_files_are_those_of_the_safetensors_package(tmp_path):
    torch.manual_seed(0)
    tensors = {
        "b": torch.randn(3, 2), "a": torch.randn(4).double(), "ü/\"\n": torch.arange(5),
        "empty": torch.zeros(0, 3), "number": torch.tensor(2.5), "bool": torch.tensor([True]),
        "half": torch.randn(3).bfloat16(), "transposed": torch.randn(3, 2).T,
        "bytes": torch.arange(7, dtype=torch.uint8),
    }  # fmt: skip
    tensors["tied"] = tensors["b"]
    digest = write_tensors(tmp_path / "a.safetensors", tensors, "run")
    theirs = safetensors.torch.load_file(tmp_path / "a.safetensors")
    ours = read_tensors(tmp_path / "a.safetensors", digest, "run")
    assert theirs.keys() == ours.keys() == tensors.keys()
    for name, t in tensors.items():
        assert t.dtype == theirs[name].dtype == ours[name].dtype
        assert torch.equal(t, theirs[name])
        assert torch.equal(t, ours[name])
    same = {"w": torch.randn(3, 2), "a": torch.randn(3)}
    digest = write_tensors(tmp_path / "b.safetensors", same)
    expected = safetensors.torch.save(same, {"sha256": digest})
    assert (tmp_path / "b.safetensors").read_bytes() == expected


def test_tensors_that_were_read_do_not_change_with_the_file(tmp_path):
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"a": torch.zeros(4096)})
    tensors = read_tensors(path)
    with path.open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"\1\2\3\4")
        file.truncate(100)
    assert torch.equal(tensors["a"], torch.zeros(4096))


def test_a_change_of_any_byte_is_noticed(tmp_path):
    """All bytes of two small files, whitespace, padding and names included."""
    write_tensors(tmp_path / "a.safetensors", {"w": torch.randn(2)}, "mark")
    write_json(tmp_path / "a.json", {"labels": ["a", "ü"], "n": [1, 2.5, None]})
    for name, read in (("a.safetensors", read_tensors), ("a.json", read_json)):
        path = tmp_path / name
        content = path.read_bytes()
        for i in range(len(content)):
            for change in (0x01, 0x20, 0x2A, 0x80):
                changed = bytearray(content)
                changed[i] ^= change
                path.write_bytes(changed)
                try:
                    read(path)
                except CorruptFileError:
                    continue
                if name == "a.safetensors":  # a changed run id is noticed if one is expected
                    error_message(read_tensors, path, None, "mark")
                    continue
                pytest.fail(f"{name}: byte {i} ^ {change}")


def test_little_memory_is_no_damage(tmp_path, monkeypatch):
    def fail(*arguments, **options):
        raise RuntimeError("unable to mmap 8 bytes from file: Cannot allocate memory (12)")

    path = tmp_path / "weights.safetensors"
    export_tensors(path, {"a": torch.ones(2)})
    monkeypatch.setattr(storage, "safe_open", fail)
    with pytest.raises(UserError, match="too little memory to read it"):
        import_tensors(path)
