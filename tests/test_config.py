import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workings.config import build, describe, key_types, load_table, override, to_table, to_toml
from workings.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Inner:
    epochs: int = 3
    """passes over the data"""
    rate: float = 0.1
    """learning rate"""
    clip: float | None = 1.0
    """largest gradient norm"""
    kind: Literal["adam", "sgd"] = "adam"
    """optimizer"""
    widths: tuple[int, ...] = (4, 2)
    """widths of the layers"""

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise UserError(f"epochs = {self.epochs}: at least 1")


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str
    """title of the run"""
    quick: bool = False
    """skip slow steps"""
    inner: Inner = field(default_factory=Inner)


def test_build_converts_a_table():
    config = build(Outer, {"name": "a", "inner": {"rate": 1, "clip": "none", "widths": [8]}})
    assert config.inner == Inner(rate=1.0, clip=None, widths=(8,))
    assert isinstance(config.inner.rate, float)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"name": "a", "iner": {}}, "iner: no such key: did you mean 'inner'?"),
        ({"name": "a", "inner": {"epoch": 1}}, "inner.epoch: no such key: did you mean 'epochs'?"),
        ({}, "name is missing"),
        ({"name": 3}, 'name = 3: it must be text, in quotes: "3"'),
        ({"name": "a", "inner": {"epochs": 1.5}}, "inner.epochs = 1.5: it must be a whole number"),
        (
            {"name": "a", "inner": {"epochs": True}},
            "inner.epochs = True: it must be a whole number",
        ),
        ({"name": "a", "inner": {"kind": "adma"}}, "inner.kind = 'adma': did you mean 'adam'?"),
        ({"name": "a", "inner": 3}, "inner must be a table: [inner]"),
        ({"name": "a", "inner": {"epochs": 0}}, "inner.epochs = 0: at least 1"),
        ({"name": "a", "quick": 1}, "quick = 1: it must be true or false"),
    ],
)
def test_build_names_the_wrong_key_and_the_right_one(table, message):
    with pytest.raises(UserError) as caught:
        build(Outer, table)
    assert str(caught.value) == message


def test_the_command_line_overrides_the_file():
    table = {"name": "a", "inner": {"epochs": 1}}
    changed = override(
        table,
        ["--inner.epochs", "7", "--inner.kind=sgd", "--quick", "true", "--inner.widths", "[1, 2]"],
    )
    assert build(Outer, changed).inner == Inner(epochs=7, kind="sgd", widths=(1, 2))
    assert table == {"name": "a", "inner": {"epochs": 1}}  # the original table is unchanged


@pytest.mark.parametrize(
    "arguments", [["epochs", "3"], ["--inner.epochs"], ["--name.x", "3"], ["--"]]
)
def test_a_wrong_override_is_a_user_error(arguments):
    with pytest.raises(UserError):
        override({"name": "a"}, arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--inner.epochs"], "--inner.epochs needs a value: --inner.epochs VALUE"),
        (["--inner.epochs", "--quick", "true"], "--inner.epochs needs a value"),
        (["--inner.epcohs"], "did you mean --inner.epochs VALUE?"),
        (["--iner.epochs", "3"], "did you mean --inner.epochs VALUE?"),
        (["--rate=3"], "did you mean --inner.rate VALUE?"),
        (["--zebra"], "--zebra: no such key: expected --section.key VALUE"),
        (["zebra"], "expected --section.key VALUE"),
    ],
)
def test_a_wrong_override_names_the_right_key(arguments, message):
    with pytest.raises(UserError) as caught:
        override({"name": "a"}, arguments, key_types(Outer))
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["1", "true", "2026-11-16", "[1]", "en"])
def test_a_text_key_keeps_text_that_looks_like_a_number(text):
    assert build(Outer, override({}, ["--name", text], key_types(Outer))).name == text


def test_every_described_key_can_be_overridden():
    described = {f.key for f in describe(Outer)}
    assert described < set(key_types(Outer)) == described | {"inner"}


def test_the_docstring_of_a_field_is_its_help():
    described = {f.key: f for f in describe(Outer)}
    assert described["inner.epochs"].help == "passes over the data"
    assert described["inner.kind"].kind == "adam | sgd"
    assert described["inner.epochs"].default == 3
    assert all(f.help for f in described.values())


@given(
    st.text(),
    st.booleans(),
    st.integers(1, 10**9),
    st.floats(allow_nan=False, allow_infinity=False),
    st.lists(st.integers(), min_size=1),
)
def test_a_written_configuration_reads_back_equal(name, quick, epochs, rate, widths):
    config = Outer(
        name=name, quick=quick, inner=Inner(epochs=epochs, rate=rate, widths=tuple(widths))
    )
    assert build(Outer, tomllib.loads(to_toml(to_table(config)))) == config


def test_a_file_that_is_not_toml_is_refused(tmp_path):
    path = tmp_path / "recipe.toml"
    deep = b".".join([b"a"] * 200_000) + b" = 1"  # tomllib would need an hour
    many = (b"a = ", b"\xff\xfe", b"x = " + b"[" * 5000, deep, b"x = 1" + b"0" * 5000, b"\0")
    for content in many:
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"recipe\.toml: not TOML") as caught:
            load_table(path)
        assert len(str(caught.value)) < 400
    path.write_bytes(b"#" * 2_000_000)
    with pytest.raises(UserError, match="larger"):
        load_table(path)


def test_to_toml_quotes_any_key():
    table = {"a b": 1, "model": {"ü": "x", "": 2}}
    assert tomllib.loads(to_toml(table)) == table


def test_a_hash_sign_on_the_command_line_is_not_a_comment():
    assert override({}, ["--title", "1 # x"]) == {"title": "1 # x"}


def test_load_table_reads_a_byte_order_mark_and_a_pipe(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_bytes(b"\xef\xbb\xbfseed = 3\r\n")
    assert load_table(path) == {"seed": 3}
    if Path("/dev/fd").is_dir():
        end, beginning = os.pipe()
        os.write(beginning, b"seed = 4\n")
        os.close(beginning)
        assert load_table(f"/dev/fd/{end}") == {"seed": 4}
        os.close(end)
        with pytest.raises(UserError, match="larger than"):
            load_table("/dev/zero")


def test_to_toml_writes_empty_sections():
    table = {"seed": 1, "model": {}}
    assert tomllib.loads(to_toml(table)) == table
