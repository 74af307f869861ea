import io
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workings.data.archives import check_member_name, iter_members, unpack
from workings.errors import UserError

GOOD = {"set/a.txt": b"one", "set/deep/b.txt": b"two" * 1000, "c.txt": b""}
BAD_NAMES = ["/etc/x", "../x", "a/../../x", "a/..", "C:/x", "..\\x", "a\\b", "~root/x", "a\0b"]


def make_tar(path: Path, files: dict[str, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def make_special_tar(path: Path, kind: bytes, target: str = "") -> Path:
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo("thing")
        info.type, info.linkname = kind, target
        archive.addfile(info)
    return path


def make_zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def read_folder(folder: Path) -> dict[str, bytes]:
    files = (p for p in folder.rglob("*") if p.is_file())
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in files}


@pytest.mark.parametrize("make", [make_tar, make_zip])
def test_unpack_ignores_the_archives_name(tmp_path: Path, make: object) -> None:
    archive = make(tmp_path / "archive.bin", GOOD)  # type: ignore[operator]
    assert read_folder(unpack(archive, tmp_path / "new" / "out")) == GOOD
    assert {m.name: m.read() for m in iter_members(archive)} == GOOD


def test_folders_are_not_members(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name in (".", "./set"):
            info = tarfile.TarInfo(name)
            info.type = tarfile.DIRTYPE
            archive.addfile(info)
    with pytest.raises(StopIteration):
        next(iter(iter_members(tmp_path / "a.tar")))


@pytest.mark.parametrize("name", [n for n in BAD_NAMES if "\0" not in n])
@pytest.mark.parametrize("make", [make_tar, make_zip])
def test_paths_that_leave_the_folder_are_rejected(tmp_path: Path, make: object, name: str) -> None:
    archive = make(tmp_path / "archive", {"good.txt": b"", name: b"evil"})  # type: ignore[operator]
    before = read_folder(tmp_path)
    with pytest.raises(UserError, match="leaves the folder"):
        unpack(archive, tmp_path / "out")
    assert read_folder(tmp_path) == before


@pytest.mark.parametrize("name", BAD_NAMES)
def test_unsafe_names_are_rejected(name: str) -> None:
    with pytest.raises(UserError, match="leaves the folder"):
        check_member_name(name)


@given(st.text(alphabet="ab./\\:~ ", max_size=12))
def test_accepted_names_stay_inside_the_folder(name: str) -> None:
    try:
        safe = check_member_name(name)
    except UserError:
        return
    inside = Path("/box") / safe
    assert inside.resolve().is_relative_to("/box")


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        (tarfile.SYMTYPE, "/etc/passwd"),
        (tarfile.SYMTYPE, "good.txt"),
        (tarfile.LNKTYPE, "good.txt"),
        (tarfile.CHRTYPE, ""),
        (tarfile.BLKTYPE, ""),
        (tarfile.FIFOTYPE, ""),
    ],
)
def test_links_and_devices_in_a_tar_are_rejected(tmp_path: Path, kind: bytes, target: str) -> None:
    with pytest.raises(UserError, match="link or a device"):
        unpack(make_special_tar(tmp_path / "a.tar.gz", kind, target), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_links_in_a_zip_are_rejected(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("link")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(UserError, match="link or a device"):
        unpack(tmp_path / "a.zip", tmp_path / "out")


@pytest.mark.parametrize("make", [make_tar, make_zip])
def test_limits_on_bytes_and_members(tmp_path: Path, make: object) -> None:
    archive = make(tmp_path / "a", {"a": b"0" * 5000, "b": b"1" * 5000})  # type: ignore[operator]
    assert unpack(archive, tmp_path / "fits", max_bytes=10_000, max_members=2)
    with pytest.raises(UserError, match="more than 9,999 bytes"):
        unpack(archive, tmp_path / "out", max_bytes=9_999)
    with pytest.raises(UserError, match="more than 1 files"):
        unpack(archive, tmp_path / "out", max_members=1)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "fits"]


def test_bytes_are_limited_if_the_header_states_fewer(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "a.zip", {"a": b"0" * 100_000})
    raw = archive.read_bytes()
    archive.write_bytes(raw.replace((100_000).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    with pytest.raises(UserError):
        unpack(archive, tmp_path / "out", max_bytes=50_000)


def test_gzip_bomb_in_a_tar_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = make_tar(tmp_path / "a.tar.gz", {"a": bytes(3_000_000)})
    monkeypatch.setattr("workings.data.readers.FREE_EXPANSION_BYTES", 1_000_000)
    with pytest.raises(UserError, match="times its size"):
        unpack(archive, tmp_path / "out")


@pytest.mark.parametrize("make", [make_tar, make_zip])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_duplicate_members_are_rejected(tmp_path: Path, make: object) -> None:
    archive = make(tmp_path / "a", {"a": b"1", "./a": b"2"})  # type: ignore[operator]
    with pytest.raises(UserError, match="twice"):
        unpack(archive, tmp_path / "out")
    archive = make(tmp_path / "b", {"a": b"1", "a/b": b"2"})  # type: ignore[operator]
    with pytest.raises(UserError):
        unpack(archive, tmp_path / "out")


def test_files_that_are_not_archives_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    for raw in (b"", b"hello", b"\x1f\x8bhello", b"PK\x03\x04hello"):
        path.write_bytes(raw)
        with pytest.raises(UserError, match=r"a\.tar\.gz"):
            unpack(path, tmp_path / "out")
    with pytest.raises(UserError, match="no such file"):
        unpack(tmp_path / "none", tmp_path / "out")


@pytest.mark.parametrize("make", [make_tar, make_zip])
def test_truncated_archive_is_rejected(tmp_path: Path, make: object) -> None:
    archive = make(tmp_path / "a", {"a": bytes(range(256)) * 50, "b": b"1"})  # type: ignore[operator]
    archive.write_bytes(archive.read_bytes()[:-60])
    with pytest.raises(UserError):
        unpack(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_member_without_a_name_is_rejected(tmp_path: Path) -> None:
    raw = make_zip(tmp_path / "a.zip", {"abc": b"x"}).read_bytes()
    end = raw.index(b"PK\1\2")
    nameless = raw[:end] + raw[end:].replace(b"\3\0", b"\0\0", 1).replace(b"abc", b"")
    (tmp_path / "b.zip").write_bytes(nameless)
    with pytest.raises(UserError, match=r"b\.zip: a damaged archive"):
        unpack(tmp_path / "b.zip", tmp_path / "out")


def test_sparse_files_are_rejected(tmp_path: Path) -> None:
    """A few bytes may expand to terabytes of zeros."""
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("sparse")
        info.size = 512
        info.pax_headers = {"GNU.sparse.map": "0,1", "GNU.sparse.size": str(10**12)}
        archive.addfile(info, io.BytesIO(bytes(512)))
    with pytest.raises(UserError, match="'sparse' is sparse"):
        unpack(tmp_path / "a.tar", tmp_path / "out")


def test_zip_bomb_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = make_zip(tmp_path / "a.zip", {"a": bytes(3_000_000)})
    monkeypatch.setattr("workings.data.readers.FREE_EXPANSION_BYTES", 1_000_000)
    with pytest.raises(UserError, match=r"more than .* bytes: not unpacked"):
        unpack(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_DEFLATED])
def test_damaged_member_is_rejected(tmp_path: Path, method: int) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as archive:
        archive.writestr("a", bytes(range(256)) * 20)
    raw = bytearray((tmp_path / "a.zip").read_bytes())
    raw[40:60] = b"\xff" * 20
    (tmp_path / "a.zip").write_bytes(raw)
    with pytest.raises(UserError, match=r"a\.zip: a damaged archive: .") as caught:
        unpack(tmp_path / "a.zip", tmp_path / "out")
    assert "None" not in str(caught.value)


def test_existing_folder_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError, match="exists already"):
        unpack(make_tar(tmp_path / "a", GOOD), tmp_path / "out")
