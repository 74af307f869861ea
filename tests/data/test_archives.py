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


def tar(path: Path, files: dict[str, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def special(path: Path, kind: bytes, target: str = "") -> Path:
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo("thing")
        info.type, info.linkname = kind, target
        archive.addfile(info)
    return path


def zipped(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    files = (p for p in folder.rglob("*") if p.is_file())
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in files}


@pytest.mark.parametrize("make", [tar, zipped])
def test_unpacks_whatever_the_name(tmp_path: Path, make: object) -> None:
    archive = make(tmp_path / "archive.bin", GOOD)  # type: ignore[operator]
    assert contents(unpack(archive, tmp_path / "new" / "out")) == GOOD
    assert {m.name: m.read() for m in iter_members(archive)} == GOOD


def test_unpacks_plain_tar_with_folders(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name in (".", "./set"):
            info = tarfile.TarInfo(name)
            info.type = tarfile.DIRTYPE
            archive.addfile(info)
    with pytest.raises(StopIteration):
        next(iter(iter_members(tmp_path / "a.tar")))


@pytest.mark.parametrize("name", [n for n in BAD_NAMES if "\0" not in n])
@pytest.mark.parametrize("make", [tar, zipped])
def test_nothing_leaves_the_folder(tmp_path: Path, make: object, name: str) -> None:
    archive = make(tmp_path / "archive", {"good.txt": b"", name: b"evil"})  # type: ignore[operator]
    before = contents(tmp_path)
    with pytest.raises(UserError, match="would leave its folder"):
        unpack(archive, tmp_path / "out")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", BAD_NAMES)
def test_bad_names(name: str) -> None:
    with pytest.raises(UserError, match="would leave"):
        check_member_name(name)


@given(st.text(alphabet="ab./\\:~ ", max_size=12))
def test_a_safe_name_stays_inside(name: str) -> None:
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
def test_no_links_no_devices(tmp_path: Path, kind: bytes, target: str) -> None:
    with pytest.raises(UserError, match="link or a device"):
        unpack(special(tmp_path / "a.tar.gz", kind, target), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_no_links_in_zips(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("link")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(UserError, match="link or a device"):
        unpack(tmp_path / "a.zip", tmp_path / "out")


@pytest.mark.parametrize("make", [tar, zipped])
def test_limits(tmp_path: Path, make: object) -> None:
    archive = make(tmp_path / "a", {"a": b"0" * 5000, "b": b"1" * 5000})  # type: ignore[operator]
    assert unpack(archive, tmp_path / "fits", max_bytes=10_000, max_members=2)
    with pytest.raises(UserError, match="more than 9,999 bytes"):
        unpack(archive, tmp_path / "out", max_bytes=9_999)
    with pytest.raises(UserError, match="more than 1 files"):
        unpack(archive, tmp_path / "out", max_members=1)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "fits"]


def test_a_zip_whose_header_lies(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "a.zip", {"a": b"0" * 100_000})
    raw = archive.read_bytes()
    archive.write_bytes(raw.replace((100_000).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    with pytest.raises(UserError):
        unpack(archive, tmp_path / "out", max_bytes=50_000)


def test_a_gzip_bomb_in_a_tar_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tar(tmp_path / "a.tar.gz", {"a": bytes(3_000_000)})
    monkeypatch.setattr("workings.data.readers.FREE_EXPANSION_BYTES", 1_000_000)
    with pytest.raises(UserError, match="times its size"):
        unpack(archive, tmp_path / "out")


@pytest.mark.parametrize("make", [tar, zipped])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_no_file_twice(tmp_path: Path, make: object) -> None:
    archive = make(tmp_path / "a", {"a": b"1", "./a": b"2"})  # type: ignore[operator]
    with pytest.raises(UserError, match="twice"):
        unpack(archive, tmp_path / "out")
    archive = make(tmp_path / "b", {"a": b"1", "a/b": b"2"})  # type: ignore[operator]
    with pytest.raises(UserError):
        unpack(archive, tmp_path / "out")


def test_what_is_no_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    for raw in (b"", b"hello", b"\x1f\x8bhello", b"PK\x03\x04hello"):
        path.write_bytes(raw)
        with pytest.raises(UserError, match=r"a\.tar\.gz"):
            unpack(path, tmp_path / "out")
    with pytest.raises(UserError, match="no such file"):
        unpack(tmp_path / "none", tmp_path / "out")


@pytest.mark.parametrize("make", [tar, zipped])
def test_a_truncated_archive(tmp_path: Path, make: object) -> None:
    archive = make(tmp_path / "a", {"a": bytes(range(256)) * 50, "b": b"1"})  # type: ignore[operator]
    archive.write_bytes(archive.read_bytes()[:-60])
    with pytest.raises(UserError):
        unpack(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_member_without_a_name(tmp_path: Path) -> None:
    raw = zipped(tmp_path / "a.zip", {"abc": b"x"}).read_bytes()
    end = raw.index(b"PK\1\2")
    nameless = raw[:end] + raw[end:].replace(b"\3\0", b"\0\0", 1).replace(b"abc", b"")
    (tmp_path / "b.zip").write_bytes(nameless)
    with pytest.raises(UserError, match=r"b\.zip: a damaged archive"):
        unpack(tmp_path / "b.zip", tmp_path / "out")


def test_sparse_files_are_refused(tmp_path: Path) -> None:
    """A few bytes may stand for terabytes of zeros."""
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("sparse")
        info.size = 512
        info.pax_headers = {"GNU.sparse.map": "0,1", "GNU.sparse.size": str(10**12)}
        archive.addfile(info, io.BytesIO(bytes(512)))
    with pytest.raises(UserError, match="'sparse' is sparse"):
        unpack(tmp_path / "a.tar", tmp_path / "out")


def test_a_zip_bomb_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = zipped(tmp_path / "a.zip", {"a": bytes(3_000_000)})
    monkeypatch.setattr("workings.data.readers.FREE_EXPANSION_BYTES", 1_000_000)
    with pytest.raises(UserError, match="holds more than"):
        unpack(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_DEFLATED])
def test_damage_inside_a_member(tmp_path: Path, method: int) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as archive:
        archive.writestr("a", bytes(range(256)) * 20)
    raw = bytearray((tmp_path / "a.zip").read_bytes())
    raw[40:60] = b"\xff" * 20
    (tmp_path / "a.zip").write_bytes(raw)
    with pytest.raises(UserError, match=r"a\.zip: a damaged archive: .") as caught:
        unpack(tmp_path / "a.zip", tmp_path / "out")
    assert "None" not in str(caught.value)


def test_does_not_overwrite(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError, match="already there"):
        unpack(tar(tmp_path / "a", GOOD), tmp_path / "out")
