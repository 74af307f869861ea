"""Named datasets, downloaded and prepared; the user's files and folders; names of emoji."""

import dataclasses
import hashlib
import io
import json
import sys
import tarfile
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from workings.data import (
    Example,
    Splits,
    find_text_overlap,
    list_datasets,
    load_dataset,
    load_emoji_languages,
    locate_dataset,
    read_examples,
)
from workings.data.datasets import DATASETS, LANGUAGES, _collect_emoji_names, emoji_family
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


def make_tar_gz(files: dict[str, bytes]) -> bytes:
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
    def serve_content(name: str, content: bytes) -> Any:
        server.content = content
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        mirrors = (Mirror(server.url, len(content), digest),)
        monkeypatch.setitem(DATASETS, name, dataclasses.replace(DATASETS[name], mirrors=mirrors))
        return server

    return serve_content


def test_imdb_is_downloaded_and_prepared_once(cache: Path, serve: Any) -> None:
    server = serve("imdb", make_tar_gz(REVIEWS))
    progress: list[tuple[int, int]] = []
    splits = load_dataset("imdb", validation=0.0, progress=lambda *p: progress.append(p))
    assert splits.train == (
        Example("Bad, na\u00efve\x85", "negative"),
        Example("Worse.", "negative"),
        Example("Good.", "positive"),
    )
    assert splits.test == (Example("Poor.", "negative"), Example("Great.", "positive"))
    assert splits.validation == ()
    assert progress[-1] == (len(server.content),) * 2
    assert load_dataset("imdb", validation=0.0) == splits
    assert len(server.requests) == 1
    files = sorted(p.name for p in (cache / "imdb").iterdir() if not p.name.endswith("lock"))
    assert files == ["test.jsonl.gz", "train.jsonl.gz"]


def test_prepared_files_are_json_lines(cache: Path, serve: Any) -> None:
    serve("imdb", make_tar_gz(REVIEWS))
    import gzip

    lines = gzip.decompress((locate_dataset("imdb") / "train.jsonl.gz").read_bytes()).splitlines()
    first = {"id": "neg/2_1", "label": 0, "rating": 1, "text": "Bad, na\u00efve\x85"}
    assert json.loads(lines[0]) == first


def test_rt_polarity_is_prepared(cache: Path, serve: Any) -> None:
    serve("rt-polarity", make_tar_gz(SENTENCES))
    splits = load_dataset("rt-polarity", validation=0.0, test=0.0)
    assert [(e.text, e.label) for e in splits.train] == [
        ("good .", "positive"),
        ("naïve but great", "positive"),
        ("bad .", "negative"),
        ("worse…", "negative"),
    ]


def test_preparing_real_reviews_preserves_them(cache: Path, serve: Any, data: Path) -> None:
    real = list(read_examples(data / "rt-polarity" / "mr.jsonl.gz"))
    sides = {"neg": "0", "pos": "1"}
    files = {
        f"rt-polaritydata/rt-polarity.{side}": "".join(
            f"{e.text} \n" for e in real if e.label == label
        ).encode("cp1252")
        for side, label in sides.items()
    }
    serve("rt-polarity", make_tar_gz(files))
    assert list(read_examples(locate_dataset("rt-polarity") / "mr.jsonl.gz")) == real


def test_workings_data_takes_precedence_over_the_cache(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, word in ((tmp_path / "mine", "mine"), (cache, "cached")):
        (folder / "rt-polarity").mkdir(parents=True)
        line = json.dumps({"text": word, "label": 1})
        (folder / "rt-polarity" / "mr.jsonl").write_text(line + "\n")
    assert load_dataset("rt-polarity", allow_download=False).train == (
        Example("cached", "positive"),
    )
    monkeypatch.setenv("WORKINGS_DATA", str(tmp_path / "mine"))
    assert load_dataset("rt-polarity", allow_download=False).train == (Example("mine", "positive"),)
    monkeypatch.setenv("WORKINGS_DATA", str(tmp_path / "elsewhere"))
    assert load_dataset("rt-polarity", allow_download=False).train == (
        Example("cached", "positive"),
    )


@pytest.mark.parametrize("in_cache", [False, True])
def test_archive_in_the_folder_is_used_and_kept(
    cache: Path, serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_cache: bool
) -> None:
    server = serve("imdb", make_tar_gz(REVIEWS))
    folder = cache if in_cache else tmp_path / "mine"
    monkeypatch.setenv("WORKINGS_DATA", str(tmp_path / "mine"))
    (folder / "imdb").mkdir(parents=True)
    (folder / "imdb" / "aclImdb_v1.tar.gz").write_bytes(server.content)
    assert len(load_dataset("imdb", allow_download=False).test) == 2
    assert not server.requests
    assert (folder / "imdb" / "aclImdb_v1.tar.gz").exists()


def test_error_explains_how_to_download_the_files_manually(cache: Path, serve: Any) -> None:
    with pytest.raises(UserError, match="not on this machine") as error:
        load_dataset("imdb", allow_download=False)
    message = str(error.value)
    assert (
        f"put aclImdb_v1.tar.gz, from {DATASETS['imdb'].homepage}, into {cache / 'imdb'}" in message
    )
    assert "WORKINGS_DATA" in message
    assert "train.jsonl.gz and test.jsonl.gz" in message
    server = serve("imdb", make_tar_gz(REVIEWS))
    server.plan = ["404"]
    with pytest.raises(UserError, match=r"imdb: could not download .* 404") as error:
        load_dataset("imdb")
    assert "WORKINGS_DATA" in str(error.value)


def test_unwritable_cache_is_reported(cache: Path) -> None:
    cache.parent.parent.parent.mkdir(exist_ok=True)
    cache.parent.parent.write_text("a file where the folder should be")
    with pytest.raises(UserError, match=r"Not a directory[\s\S]*WORKINGS_DATA"):
        load_dataset("imdb")


def test_archive_without_texts_is_rejected(cache: Path, serve: Any) -> None:
    serve("imdb", make_tar_gz({"aclImdb/README": b"about"}))
    with pytest.raises(UserError, match=r"the archive has no texts for train\.jsonl\.gz"):
        load_dataset("imdb")


def test_every_mirror_has_a_size_and_a_digest() -> None:
    for spec in DATASETS.values():
        for mirror in spec.mirrors:
            algorithm, _, digest = mirror.digest.partition(":")
            assert len(bytes.fromhex(digest)) == hashlib.new(algorithm).digest_size
            assert mirror.size > 0
            assert mirror.url.startswith("https://")
            assert mirror.url.endswith(spec.archive)


def make_csv(count: int, labels: str = "ab") -> str:
    rows = "".join(f"text {i},{labels[i % len(labels)]}\n" for i in range(count))
    return f"text,label\n{rows}"


def test_missing_splits_of_a_file_are_held_out(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(make_csv(200))
    splits = load_dataset(path)
    assert [len(p) for p in (splits.train, splits.validation, splits.test)] == [160, 20, 20]
    assert load_dataset(str(path)) == dataclasses.replace(splits, name=str(path))
    assert len(load_dataset(path, validation=0.0, test=0.0).train) == 200
    assert len(load_dataset(path, validation=0.25, test=0.5).validation) == 50


def test_splits_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text(make_csv(100))
    (tmp_path / "test.jsonl").write_text('{"text": "x", "label": "a"}\n')
    (tmp_path / "README.md").write_text("about")
    splits = load_dataset(tmp_path)
    assert [len(p) for p in (splits.train, splits.validation, splits.test)] == [90, 10, 1]
    (tmp_path / "dev.csv").write_text(make_csv(7))
    splits = load_dataset(tmp_path)
    assert [len(p) for p in (splits.train, splits.validation, splits.test)] == [100, 7, 1]
    (tmp_path / "valid.tsv").write_text("text\tlabel\nx\ty\n")
    with pytest.raises(UserError, match=r"both dev\.csv and valid\.tsv"):
        load_dataset(tmp_path)


def test_folders_with_a_subfolder_per_class(tmp_path: Path) -> None:
    for split in ("train", "test"):
        for label in ("plane", "train"):
            (tmp_path / "split" / split / label).mkdir(parents=True)
            (tmp_path / "split" / split / label / "a.txt").write_text(f"{split} {label}")
    splits = load_dataset(tmp_path / "split", validation=0.0)
    assert splits.labels == ("plane", "train")
    assert splits.test == (Example("test plane", "plane"), Example("test train", "train"))
    unsplit = load_dataset(tmp_path / "split" / "train", validation=0.0, test=0.0)
    assert unsplit.train == splits.train


def test_format_and_columns_can_be_given(tmp_path: Path) -> None:
    path = tmp_path / "mine.data"
    path.write_text("review\tstars\nGood\t5\n")
    splits = load_dataset(path, format="tsv", text="review", label="stars")
    assert splits.train == (Example("Good", "5"),)


def test_unknown_names_and_invalid_fractions_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match="imbd: neither a file nor a named dataset: did you mean 'imdb'"
    ):
        load_dataset("imbd")
    with pytest.raises(UserError, match="no dataset of this name"):
        locate_dataset("emoji-languages")
    for fractions in ({"validation": 0.5, "test": 0.5}, {"validation": -0.1}):
        with pytest.raises(UserError, match="nothing is left to train on"):
            load_dataset("emoji-languages", **fractions)  # type: ignore[arg-type]


def test_list_datasets() -> None:
    assert list_datasets() == ("emoji-languages", "imdb", "rt-polarity")


def test_links_that_lead_out_of_the_folder_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("text,label\na,b\n")
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "train.csv").symlink_to(tmp_path / "secret.csv")
    with pytest.raises(UserError, match=r"train\.csv: a link that leads out of its folder"):
        load_dataset(tmp_path / "set")


@pytest.fixture(scope="module")
def emoji() -> Splits:
    return load_emoji_languages()


def test_emoji_dataset_is_large_and_balanced(emoji: Splits) -> None:
    assert emoji.labels == tuple(sorted(LANGUAGES.values()))
    assert len(emoji.train) > 15_000
    assert min(len(emoji.validation), len(emoji.test)) > 1_500
    for split in (emoji.train, emoji.validation, emoji.test):
        counts = Counter(e.label for e in split)
        assert min(counts.values()) > 0.7 * max(counts.values())


def test_emoji_names_are_clean(emoji: Splits) -> None:
    texts = [e.text for split in (emoji.train, emoji.validation, emoji.test) for e in split]
    assert len(texts) == len(set(texts))
    for text in texts:
        assert text == text.strip().lower()
        assert not set(text) & set(":_")
        assert "  " not in text
        assert text


def test_emoji_families_are_in_one_split(emoji: Splits) -> None:
    splits = (emoji.train, emoji.validation, emoji.test)
    assert not any(find_text_overlap(a, b).texts for a, b in combinations(splits, 2))
    split_of = {example: k for k, examples in enumerate(splits) for example in examples}
    families: dict[str, set[int]] = {}
    for character, example in _collect_emoji_names():
        families.setdefault(emoji_family(character), set()).add(split_of[example])
    assert {len(numbers) for numbers in families.values()} == {1}


def test_variants_have_the_same_family() -> None:
    assert emoji_family("🏃") == emoji_family("🏃‍♂️") == emoji_family("🏃‍♀️") == emoji_family("🏃‍♀️‍➡️")
    assert emoji_family("👨‍🚀") == emoji_family("👩‍🚀")


def test_emoji_dataset_has_no_skin_tones() -> None:
    assert not [
        c for c, _ in _collect_emoji_names() if any("\U0001f3fb" <= x <= "\U0001f3ff" for x in c)
    ]


def test_emoji_dataset_is_loaded_by_name(emoji: Splits) -> None:
    assert load_dataset("emoji-languages") == emoji


def test_missing_package_has_install_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "emoji", None)
    with pytest.raises(UserError, match=r'emoji-languages needs emoji: .* "workings\[data\]'):
        load_emoji_languages()
