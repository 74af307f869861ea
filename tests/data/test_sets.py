import dataclasses
import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from workings.data import (
    Example,
    cache_folder,
    list_datasets,
    load_dataset,
    locate_dataset,
    read_examples,
)
from workings.data.datasets import DATASETS
from workings.data.download import Mirror
from workings.errors import UserError

REVIEWS = {
    "aclImdb/README": b"about",
    "aclImdb/train/neg/10_2.txt": b"Worse.",
    "aclImdb/train/neg/2_1.txt": "Bad, na\u00efve\x85".encode(),
    "aclImdb/train/pos/0_9.txt": b"Good.",
    "aclImdb/train/unsup/0_0.txt": b"Whatever.",
    "aclImdb/train/urls_pos.txt": b"http://example.com",
    "aclImdb/test/neg/0_3.txt": b"Poor.",
    "aclImdb/test/pos/0_10.txt": b"Great.",
}
SENTENCES = {
    "rt-polaritydata/rt-polarity.neg": b"bad . \nworse\x85 \n",
    "rt-polaritydata/rt-polarity.pos": b"good . \nna\xefve but great \n\n",
    "rt-polaritydata.README.1.0.txt": b"about",
}


def packed(files: dict[str, bytes]) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return raw.getvalue()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("WORKINGS_DATA", raising=False)
    return tmp_path / "cache" / "workings" / "data"


@pytest.fixture
def serve(server: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    def serving(name: str, content: bytes) -> Any:
        server.content = content
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        mirrors = (Mirror(server.url, len(content), digest),)
        monkeypatch.setitem(DATASETS, name, dataclasses.replace(DATASETS[name], mirrors=mirrors))
        return server

    return serving


def test_imdb_is_downloaded_once_and_prepared(cache: Path, serve: Any) -> None:
    server = serve("imdb", packed(REVIEWS))
    seen: list[tuple[int, int]] = []
    splits = load_dataset("imdb", validation=0.0, progress=lambda *p: seen.append(p))
    assert splits.train == (
        Example("Bad, na\u00efve\x85", "negative"),
        Example("Worse.", "negative"),
        Example("Good.", "positive"),
    )
    assert splits.test == (Example("Poor.", "negative"), Example("Great.", "positive"))
    assert splits.validation == ()
    assert seen[-1] == (len(server.content),) * 2
    assert load_dataset("imdb", validation=0.0) == splits
    assert len(server.requests) == 1
    kept = sorted(p.name for p in (cache / "imdb").iterdir() if not p.name.endswith("lock"))
    assert kept == ["test.jsonl.gz", "train.jsonl.gz"]


def test_the_prepared_file_has_the_common_layout(cache: Path, serve: Any) -> None:
    serve("imdb", packed(REVIEWS))
    import gzip

    lines = gzip.decompress((locate_dataset("imdb") / "train.jsonl.gz").read_bytes()).splitlines()
    first = {"id": "neg/2_1", "label": 0, "rating": 1, "text": "Bad, na\u00efve\x85"}
    assert json.loads(lines[0]) == first


def test_rt_polarity_is_prepared(cache: Path, serve: Any) -> None:
    serve("rt-polarity", packed(SENTENCES))
    splits = load_dataset("rt-polarity", validation=0.0, test=0.0)
    assert [(e.text, e.label) for e in splits.train] == [
        ("good .", "positive"),
        ("naïve but great", "positive"),
        ("bad .", "negative"),
        ("worse…", "negative"),
    ]


def test_real_reviews_survive_the_trip(cache: Path, serve: Any, data: Path) -> None:
    real = list(read_examples(data / "rt-polarity" / "mr.jsonl.gz"))
    sides = {"neg": "0", "pos": "1"}
    files = {
        f"rt-polaritydata/rt-polarity.{side}": "".join(
            f"{e.text} \n" for e in real if e.label == label
        ).encode("cp1252")
        for side, label in sides.items()
    }
    serve("rt-polarity", packed(files))
    assert list(read_examples(locate_dataset("rt-polarity") / "mr.jsonl.gz")) == real


def test_the_environment_comes_first(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, word in ((tmp_path / "mine", "mine"), (cache, "cached")):
        (place / "rt-polarity").mkdir(parents=True)
        line = json.dumps({"text": word, "label": 1})
        (place / "rt-polarity" / "mr.jsonl").write_text(line + "\n")
    assert load_dataset("rt-polarity", allow_download=False).train == (
        Example("cached", "positive"),
    )
    monkeypatch.setenv("WORKINGS_DATA", str(tmp_path / "mine"))
    assert load_dataset("rt-polarity", allow_download=False).train == (Example("mine", "positive"),)
    monkeypatch.setenv("WORKINGS_DATA", str(tmp_path / "elsewhere"))
    assert load_dataset("rt-polarity", allow_download=False).train == (
        Example("cached", "positive"),
    )


@pytest.mark.parametrize("given", [False, True])
def test_an_archive_put_there_is_used(
    cache: Path, serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: bool
) -> None:
    server = serve("imdb", packed(REVIEWS))
    place = tmp_path / "mine" if given else cache
    monkeypatch.setenv("WORKINGS_DATA", str(tmp_path / "mine"))
    (place / "imdb").mkdir(parents=True)
    (place / "imdb" / "aclImdb_v1.tar.gz").write_bytes(server.content)
    assert len(load_dataset("imdb", allow_download=False).test) == 2
    assert not server.requests
    assert (place / "imdb" / "aclImdb_v1.tar.gz").exists()


def test_offline_the_error_says_what_to_put_where(cache: Path, serve: Any) -> None:
    with pytest.raises(UserError, match="not on this machine") as error:
        load_dataset("imdb", allow_download=False)
    said = str(error.value)
    assert f"put aclImdb_v1.tar.gz, from {DATASETS['imdb'].homepage}, into {cache / 'imdb'}" in said
    assert "WORKINGS_DATA" in said
    assert "train.jsonl.gz and test.jsonl.gz" in said
    server = serve("imdb", packed(REVIEWS))
    server.plan = ["404"]
    with pytest.raises(UserError, match=r"imdb: could not download .* 404") as error:
        load_dataset("imdb")
    assert "WORKINGS_DATA" in str(error.value)


def test_a_cache_that_cannot_be_written(cache: Path) -> None:
    cache.parent.parent.parent.mkdir(exist_ok=True)
    cache.parent.parent.write_text("a file where the folder should be")
    with pytest.raises(UserError, match=r"Not a directory[\s\S]*WORKINGS_DATA"):
        load_dataset("imdb")


def test_an_archive_with_nothing_in_it(cache: Path, serve: Any) -> None:
    serve("imdb", packed({"aclImdb/README": b"about"}))
    with pytest.raises(UserError, match=r"holds nothing for train\.jsonl\.gz"):
        load_dataset("imdb")


def test_digests_are_stated_for_every_mirror() -> None:
    for chosen in DATASETS.values():
        for mirror in chosen.mirrors:
            method, _, digest = mirror.digest.partition(":")
            assert len(bytes.fromhex(digest)) == hashlib.new(method).digest_size
            assert mirror.size > 0
            assert mirror.url.startswith("https://")
            assert mirror.url.endswith(chosen.archive)


def lines_of(count: int, label: str = "ab") -> str:
    rows = "".join(f"text {i},{label[i % len(label)]}\n" for i in range(count))
    return f"text,label\n{rows}"


def test_a_file_is_held_out_from(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(lines_of(200))
    splits = load_dataset(path)
    assert [len(p) for p in (splits.train, splits.validation, splits.test)] == [160, 20, 20]
    assert load_dataset(str(path)) == dataclasses.replace(splits, name=str(path))
    assert len(load_dataset(path, validation=0.0, test=0.0).train) == 200
    assert len(load_dataset(path, validation=0.25, test=0.5).validation) == 50


def test_a_folder_with_parts(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text(lines_of(100))
    (tmp_path / "test.jsonl").write_text('{"text": "x", "label": "a"}\n')
    (tmp_path / "README.md").write_text("about")
    splits = load_dataset(tmp_path)
    assert [len(p) for p in (splits.train, splits.validation, splits.test)] == [90, 10, 1]
    (tmp_path / "dev.csv").write_text(lines_of(7))
    splits = load_dataset(tmp_path)
    assert [len(p) for p in (splits.train, splits.validation, splits.test)] == [100, 7, 1]
    (tmp_path / "valid.tsv").write_text("text\tlabel\nx\ty\n")
    with pytest.raises(UserError, match=r"both dev\.csv and valid\.tsv"):
        load_dataset(tmp_path)


def test_folders_of_classes(tmp_path: Path) -> None:
    for part in ("train", "test"):
        for label in ("plane", "train"):
            (tmp_path / "split" / part / label).mkdir(parents=True)
            (tmp_path / "split" / part / label / "a.txt").write_text(f"{part} {label}")
    splits = load_dataset(tmp_path / "split", validation=0.0)
    assert splits.labels == ("plane", "train")
    assert splits.test == (Example("test plane", "plane"), Example("test train", "train"))
    whole = load_dataset(tmp_path / "split" / "train", validation=0.0, test=0.0)
    assert whole.train == splits.train


def test_columns_are_passed_on(tmp_path: Path) -> None:
    path = tmp_path / "mine.data"
    path.write_text("review\tstars\nGood\t5\n")
    splits = load_dataset(path, format="tsv", text="review", label="stars")
    assert splits.train == (Example("Good", "5"),)


def test_what_is_neither_a_set_nor_a_file(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match="imbd: neither a file nor a named set: did you mean 'imdb'"
    ):
        load_dataset("imbd")
    with pytest.raises(UserError, match="no named set"):
        locate_dataset("emoji-languages")
    for wrong in ({"validation": 0.5, "test": 0.5}, {"validation": -0.1}):
        with pytest.raises(UserError, match="nothing is left to train on"):
            load_dataset("emoji-languages", **wrong)  # type: ignore[arg-type]


def test_names() -> None:
    assert list_datasets() == ("emoji-languages", "imdb", "rt-polarity")


def test_the_cache_of_each_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == tmp_path / ".cache" / "workings"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert cache_folder() == tmp_path / "x" / "workings"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_folder() == tmp_path / "Library" / "Caches" / "workings"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert cache_folder() == tmp_path / "local" / "workings" / "Cache"
    monkeypatch.delenv("LOCALAPPDATA")
    assert cache_folder() == tmp_path / "AppData" / "Local" / "workings" / "Cache"


def test_the_parts_of_a_folder_are_in_it(tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("text,label\na,b\n")
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "train.csv").symlink_to(tmp_path / "secret.csv")
    with pytest.raises(UserError, match=r"train\.csv: a link that leads out of its folder"):
        load_dataset(tmp_path / "set")
