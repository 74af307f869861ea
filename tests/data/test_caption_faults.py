"""Pictures that cannot be used, archives that are none, disks that fail."""

from pathlib import Path

import pytest
from picture_sets import NAMES, SAID, check, json_lines, png, put_pictures, put_zip

from workings.data import images
from workings.data.caption_files import CaptionedImage
from workings.data.captions import load_captions
from workings.errors import UserError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("WORKINGS_DATA", raising=False)


def test_what_cannot_be_used_is_left_out_counted_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "MAX_PIXELS", 200)
    put_pictures(tmp_path)
    (tmp_path / "1.png").write_bytes(b"nothing")
    (tmp_path / "2.png").write_bytes(png(2)[:-30])
    (tmp_path / "3.png").unlink()
    (tmp_path / "4.png").write_bytes(png(4, size=(20, 20)))
    (tmp_path / "5.png").write_bytes(png(5, "L"))
    (tmp_path / "6.png").unlink()
    (tmp_path / "6.png").symlink_to(tmp_path / "7.png")
    said = [
        *SAID[:9],
        CaptionedImage("9.png", ()),
        CaptionedImage("../9.png", ("x",)),
        CaptionedImage("/9.png", ("x",)),
    ]
    path = json_lines(tmp_path / "a.jsonl", said, "t" * 12)
    for _ in range(2):  # the second time from the cache, which knows it, too
        found = load_captions(path, image_size=8, validation=0, test=0)
        assert found.image_stats.counts == {
            "without captions": 1,
            "missing": 3,
            "unreadable": 2,
            "truncated": 1,
            "enormous": 1,
            "grey": 1,
        }
        assert [p.name for p in found.images["train"]] == ["0.png", "5.png", "7.png", "8.png"]
        assert found.pixels["train"].shape == (4, 8, 8, 3)
        assert (found.pixels["train"][3] == (160, 95, 7)).all()
        assert "4 pictures; left out: 1 without captions (9.png), 3 missing (3.png, ../9.png, " in (
            found.image_stats.describe()
        )
        assert found.image_stats.describe().endswith("; converted: 1 grey (5.png)")


def test_a_damaged_entry_of_an_archive_is_one_picture_less(tmp_path: Path) -> None:
    archive = put_zip(tmp_path / "a.zip")
    raw = archive.read_bytes()
    at = raw.index(png(3)) + 40
    archive.write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
    found = load_captions(json_lines(tmp_path / "a.jsonl"), image_size=8)
    assert found.image_stats.counts == {"unreadable": 1}
    check(found)


def test_archives_that_lead_out_or_are_none_are_refused(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "a.jsonl")
    evil = put_zip(tmp_path / "evil.zip", "../")
    with pytest.raises(UserError, match="would leave its folder"):
        load_captions(path, image_size=8, images=evil)
    evil.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(UserError, match="a damaged archive"):
        load_captions(path, image_size=8, images=evil)
    with pytest.raises(UserError, match="not a zip archive"):
        load_captions(path, image_size=8, images=path)
    with pytest.raises(UserError, match="no such folder or zip archive"):
        load_captions(path, image_size=8, images=tmp_path / "none")
    evil.unlink()
    with pytest.raises(UserError, match="none of its pictures is in its folder"):
        load_captions(path, image_size=8)
    (tmp_path / "3.png").write_bytes(b"")
    with pytest.raises(UserError, match="no picture is left to train on: 0 pictures; left out: "):
        load_captions(path, image_size=8)


def test_an_archive_that_is_none_does_not_matter_beside_the_pictures(tmp_path: Path) -> None:
    put_pictures(tmp_path)
    (tmp_path / "junk.zip").write_bytes(b"no archive")
    file = json_lines(tmp_path / "captions.jsonl")
    assert sum(map(len, load_captions(file, image_size=16).images.values())) == 10
    for name in NAMES:
        (tmp_path / name).unlink()
    with pytest.raises(UserError, match=r"none of its pictures .* \(.*junk.zip: "):
        load_captions(file, image_size=16)


def test_a_fault_of_the_disk_is_not_kept_as_one_of_the_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_pictures(tmp_path)
    file = json_lines(tmp_path / "captions.jsonl")
    read = images.read_bytes

    def faulty(path: Path, most: int) -> bytes:
        if path.name == "3.png":
            raise OSError(5, "Input/output error")
        return read(path, most)

    with monkeypatch.context() as patch:
        patch.setattr(images, "read_bytes", faulty)
        with pytest.raises(UserError, match=r"3\.png: Input/output error"):
            load_captions(file, image_size=16)
    assert load_captions(file, image_size=16).image_stats.names_by_issue == {}
