"""Atomic writes, bounded reads, locks and TOML."""

import os
import threading
from pathlib import Path

import pytest

from workings.errors import UserError
from workings.io import (
    LockHeld,
    atomic_folder,
    atomic_write,
    check_inside,
    file_lock,
    open_regular_file,
    parse_toml,
    read_bytes,
    write_bytes,
    write_text,
)


@pytest.mark.parametrize("unique", [False, True])
def test_atomic_write_replaces_the_file_and_leaves_no_temporary_one(tmp_path: Path, unique) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with atomic_write(path, unique=unique) as file:
        file.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_atomic_write_keeps_the_old_file_if_the_block_fails(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(TypeError), atomic_write(path) as file:
        file.writelines([b"half", None])
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_atomic_write_does_not_write_through_a_link_in_place_of_the_temporary_file(
    tmp_path: Path,
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / ".a.txt.part").symlink_to(victim)
    write_text(tmp_path / "a.txt", "new")
    assert victim.read_text() == "mine"
    assert (tmp_path / "a.txt").read_text() == "new"


def test_a_failed_write_names_the_file_and_not_the_temporary_one(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "a.txt"
    with pytest.raises(FileNotFoundError) as error:
        write_bytes(path, b"x")
    assert error.value.filename == str(path)


def test_processes_that_write_one_path_use_different_temporary_files(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "a", unique=True) as file:
        assert str(os.getpid()) in Path(file.name).name


def test_atomic_folder_appears_when_complete_and_never_by_halves(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    with atomic_folder(folder) as part:
        (part / "a.txt").write_text("a")
        assert not folder.exists()
    assert (folder / "a.txt").read_text() == "a"
    with pytest.raises(RuntimeError), atomic_folder(tmp_path / "other"):
        raise RuntimeError
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_atomic_folder_replaces_a_folder_only_with_replace(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "old.txt").write_text("old")
    with pytest.raises(OSError, match="not empty"), atomic_folder(folder) as part:
        (part / "new.txt").write_text("new")
    assert [path.name for path in folder.iterdir()] == ["old.txt"]
    with atomic_folder(folder, replace=True) as part:
        (part / "new.txt").write_text("new")
    assert [path.name for path in folder.iterdir()] == ["new.txt"]
    assert list(tmp_path.iterdir()) == [folder]


def test_atomic_folder_puts_the_old_folder_back_if_the_rename_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "old.txt").write_text("old")

    def refuse(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="Input/output"), atomic_folder(folder, replace=True):
        pass
    assert (folder / "old.txt").read_text() == "old"
    assert list(tmp_path.iterdir()) == [folder]


def test_reads_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert read_bytes(path, 5) == b"12345"
    with pytest.raises(UserError, match="larger than the limit of 4 bytes"):
        read_bytes(path, 4)


@pytest.mark.skipif(os.name != "posix", reason="links and pipes")
def test_links_and_pipes_are_not_opened(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="link: expected a regular file"):
        open_regular_file(tmp_path / "link")
    with pytest.raises(UserError, match="a pipe or a device: expected a regular file"):
        open_regular_file(tmp_path / "pipe")
    with pytest.raises(UserError, match="a pipe or a device"):
        check_inside(tmp_path / "pipe", tmp_path)
    with pytest.raises(UserError, match="leads out of its folder"):
        check_inside(tmp_path, tmp_path / "inner")


def test_a_held_lock_is_waited_for_or_reported(tmp_path: Path) -> None:
    path, order = tmp_path / ".lock", []

    def wait() -> None:
        with file_lock(path):
            order.append("second")

    with file_lock(path):
        with pytest.raises(LockHeld), file_lock(path, wait=False):
            pass
        thread = threading.Thread(target=wait)
        thread.start()
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


def test_toml_that_would_take_too_long_or_too_deep_a_stack_is_refused() -> None:
    assert parse_toml("a.b = 1.5") == {"a": {"b": 1.5}}
    for text in ("a." * 20 + "b = 1", "a = " + "[" * 5000):
        with pytest.raises(UserError, match="nested too deeply"):
            parse_toml(text)
