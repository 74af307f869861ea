"""A disk that loses power: records file operations, and builds what a crash could leave of them.

As ALICE and CrashMonkey do, and by what POSIX promises, not by what one file system does: only
`fsync` makes anything durable, of a file its content, of a folder its entries. Whatever was not
synced may be applied or lost, in any order, and a write may be torn.
"""

import builtins
import io
import os
import random
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

PAGE = 4096


@dataclass(frozen=True)
class Write:
    """Bytes written to a file at an offset."""

    node: int
    offset: int
    data: bytes


@dataclass(frozen=True)
class Truncate:
    node: int
    size: int


@dataclass(frozen=True)
class Link:
    """Entries of a folder that change at once: a rename removes one and sets another."""

    node: int  # the folder
    entries: tuple[tuple[str, int | None], ...]


@dataclass(frozen=True)
class Sync:
    node: int


@dataclass(frozen=True)
class Promise:
    """What the program has announced: from here on, a crash must keep it."""

    value: Any
    node: int = -1


Operation = Write | Truncate | Link | Sync | Promise
Tree = dict[str, "bytes | Tree"]


class SimulatedDisk:
    """Records the operations under a folder, which may have content that is durable already."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.operations: list[Operation] = []
        self._nodes = {root: 0}  # of the paths that exist now
        self._folders = {0}
        self._count = 1
        self._handles: dict[int, int] = {}
        self._lock = threading.RLock()  # checkpoints are written by another thread
        for path in sorted(root.rglob("*")):
            self._link(path, is_folder=path.is_dir())
            if path.is_file():
                self.operations.append(Write(self._nodes[path], 0, path.read_bytes()))
        self.operations += [Sync(node) for node in self._nodes.values()]
        self.start = len(self.operations)

    def promise(self, value: Any) -> None:
        with self._lock:
            self.operations.append(Promise(value))

    # -- recording ---------------------------------------------------------------------------------

    @contextmanager
    def record(self) -> Iterator[None]:
        """Record what this process does under the folder."""
        with pytest.MonkeyPatch.context() as patch:
            for name in ("open", "fsync", "mkdir", "rename", "unlink", "rmdir"):
                patch.setattr(os, name, self._locked(getattr(self, f"_{name}"), getattr(os, name)))
            patch.setattr(os, "replace", os.rename)
            patch.setattr(os, "remove", os.unlink)
            patch.setattr(builtins, "open", self._locked(self._open_file, builtins.open))
            patch.setattr(io, "open", builtins.open)
            patch.setattr(shutil, "_use_fd_functions", False)  # rmtree with whole paths
            patch.setattr(shutil, "_USE_CP_SENDFILE", False, raising=False)
            yield

    def _locked(self, function: Callable[..., Any], original: Callable[..., Any]) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            with self._lock:
                return function(original, *arguments, **options)

        return call

    def _inside(self, path: Any) -> Path | None:
        if isinstance(path, int):
            return None
        whole = Path(os.fsdecode(path)).absolute()
        return whole if whole.is_relative_to(self.root) else None

    def _link(self, path: Path, *, is_folder: bool = False) -> None:
        node, self._count = self._count, self._count + 1
        self._nodes[path] = node
        if is_folder:
            self._folders.add(node)
        self.operations.append(Link(self._nodes[path.parent], ((path.name, node),)))

    def _open(self, original: Any, path: Any, flags: int, mode: int = 0o777, **options: Any) -> int:
        handle: int = original(path, flags, mode, **options)
        self._handles.pop(handle, None)
        if (inside := self._inside(path)) is not None:
            if inside not in self._nodes:
                self._link(inside)
            elif flags & os.O_TRUNC:
                self.operations.append(Truncate(self._nodes[inside], 0))
            self._handles[handle] = self._nodes[inside]
        return handle

    def _open_file(
        self,
        original: Any,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        if self._inside(file) is None or not set(mode) & set("wax+"):
            opened = original(file, mode, buffering, encoding, errors, newline, closefd, opener)
            if self._inside(file) is None and not isinstance(file, int):
                self._handles.pop(opened.fileno(), None)
            return opened
        raw = _RecordedFile(self, file, mode.replace("b", "").replace("t", ""), opener)
        if buffering == 0:
            return raw
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)

    def _fsync(self, _original: Any, handle: int) -> None:
        if handle in self._handles:
            self.operations.append(Sync(self._handles[handle]))

    def _mkdir(self, original: Any, path: Any, *arguments: Any, **options: Any) -> None:
        original(path, *arguments, **options)
        if (inside := self._inside(path)) is not None:
            self._link(inside, is_folder=True)

    def _rename(self, original: Any, source: Any, target: Any) -> None:
        original(source, target)
        old, new = self._inside(source), self._inside(target)
        if old is None or new is None:
            return
        assert old.parent == new.parent, "only renames inside of one folder are simulated"
        for path in [p for p in self._nodes if p == new or new in p.parents]:
            del self._nodes[path]  # it was replaced
        for path in [p for p in self._nodes if p == old or old in p.parents]:
            self._nodes[new / path.relative_to(old)] = self._nodes.pop(path)
        entries = ((old.name, None), (new.name, self._nodes[new]))
        self.operations.append(Link(self._nodes[new.parent], entries))

    def _unlink(self, original: Any, path: Any, **options: Any) -> None:
        original(path, **options)
        if (inside := self._inside(path)) is not None:
            del self._nodes[inside]
            self.operations.append(Link(self._nodes[inside.parent], ((inside.name, None),)))

    _rmdir = _unlink

    # -- crashing ----------------------------------------------------------------------------------

    def crash_points(self) -> range:
        """Return the numbers of operations after which the power may fail."""
        return range(self.start, len(self.operations) + 1)

    def promises(self, point: int) -> list[Any]:
        """Return what was announced before a crash."""
        return [o.value for o in self.operations[:point] if isinstance(o, Promise)]

    def states(self, point: int, rng: random.Random, num_single: int) -> Iterator[Tree]:
        """Yield contents of the folder that a crash after `point` operations could leave.

        With everything or nothing that is pending; with all but one operation, and with one alone,
        also torn; and as many random choices. `num_single` is how many operations are singled out.
        """
        pending = self._find_pending(point)
        whole = {number: self.operations[number] for number in sorted(pending)}
        yield self._build(point, pending, whole)
        if not pending:
            return
        yield self._build(point, pending, {})
        singled_out = rng.sample(sorted(pending), min(num_single, len(pending)))
        for number in singled_out:
            operation = whole[number]
            yield self._build(point, pending, {n: o for n, o in whole.items() if n != number})
            yield self._build(point, pending, {number: operation})
            for part in _tear(operation, rng):
                yield self._build(point, pending, {**whole, number: part})
                yield self._build(point, pending, {number: part})
        for _ in singled_out:
            chosen = {}
            for number, operation in whole.items():
                if rng.random() < 0.5:
                    chosen[number] = rng.choice([operation, *_tear(operation, rng)])
            yield self._build(point, pending, chosen)

    def _find_pending(self, point: int) -> set[int]:
        """Return the numbers of the operations that no later `fsync` has made durable."""
        synced, pending = set(), set()
        for number in reversed(range(point)):
            operation = self.operations[number]
            if isinstance(operation, Sync):
                synced.add(operation.node)
            elif operation.node not in synced and not isinstance(operation, Promise):
                pending.add(number)
        return pending

    def _build(self, point: int, pending: set[int], chosen: dict[int, Operation]) -> Tree:
        """Apply what is durable at a point, and of what is pending the `chosen` operations."""
        files: dict[int, bytearray] = {}
        folders: dict[int, dict[str, int]] = {}
        for number, operation in enumerate(self.operations[:point]):
            if number in pending:
                if number not in chosen:
                    continue
                operation = chosen[number]
            if isinstance(operation, Link):
                entries = folders.setdefault(operation.node, {})
                for name, node in operation.entries:
                    entries.pop(name, None)
                    if node is not None:
                        entries[name] = node
            elif isinstance(operation, Write | Truncate):
                content = files.setdefault(operation.node, bytearray())
                _apply(operation, content)

        def build(node: int) -> "bytes | Tree":
            if node in self._folders:
                return {name: build(child) for name, child in folders.get(node, {}).items()}
            return bytes(files.get(node, b""))

        tree = build(0)
        assert isinstance(tree, dict)
        return tree


class _RecordedFile(io.FileIO):
    def __init__(self, disk: SimulatedDisk, path: Any, mode: str, opener: Any) -> None:
        def open_recorded(name: str, flags: int) -> int:
            return opener(name, flags) if opener else os.open(name, flags, 0o666)

        super().__init__(path, mode, opener=open_recorded)
        self._disk, self._node = disk, disk._handles[self.fileno()]

    def write(self, data: Any) -> int:
        with self._disk._lock:
            count = super().write(data)
            raw = bytes(memoryview(data).cast("B")[:count])
            self._disk.operations.append(Write(self._node, self.tell() - count, raw))
            return count

    def truncate(self, size: int | None = None) -> int:
        with self._disk._lock:
            size = super().truncate(size)
            self._disk.operations.append(Truncate(self._node, size))
            return size


def _apply(operation: Write | Truncate, content: bytearray) -> None:
    end = operation.size if isinstance(operation, Truncate) else operation.offset
    content.extend(bytes(max(0, end - len(content))))  # a hole reads as zeros
    if isinstance(operation, Truncate):
        del content[end:]
    else:
        content[end : end + len(operation.data)] = operation.data


def _tear(operation: Operation, rng: random.Random) -> Sequence[Operation]:
    """Return what a power failure may leave of a write: a prefix, or zeros for some pages."""
    if not isinstance(operation, Write) or not operation.data:
        return ()
    data = operation.data
    zeroed = bytearray(data)
    for start in range(0, len(data), PAGE):
        if len(data) <= PAGE or rng.random() < 0.5:
            zeroed[start : start + PAGE] = bytes(len(data[start : start + PAGE]))
    prefix = data[: rng.randrange(len(data))]
    return replace(operation, data=prefix), replace(operation, data=bytes(zeroed))


def write_tree(tree: Tree, folder: Path) -> None:
    """Write a state to a real folder, for the code that reads it after the crash."""
    folder.mkdir()
    for name, content in tree.items():
        if isinstance(content, dict):
            write_tree(content, folder / name)
        else:
            (folder / name).write_bytes(content)
