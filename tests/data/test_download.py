import hashlib
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from workings.data.corpora import CORPORA
from workings.data.datasets import DATASETS
from workings.data.download import Mirror, download, matches_any_mirror
from workings.data.parallel import PARALLEL_DATASETS
from workings.errors import UserError

CONTENT = random.Random(0).randbytes(300_000)  # noqa: S311


def mirror(url: str, content: bytes = CONTENT) -> Mirror:
    return Mirror(url, len(content), f"sha256:{hashlib.sha256(content).hexdigest()}")


@pytest.fixture(autouse=True)
def content(server: Any) -> None:
    server.content = CONTENT


def download_from(server: Any, folder: Path, *plan: str, **options: Any) -> Path:
    server.plan = list(plan)
    return download([mirror(server.url)], folder / "file.bin", pause=0.0, timeout=5.0, **options)


def test_download_reports_progress_and_leaves_one_file(server: Any, tmp_path: Path) -> None:
    progress: list[tuple[int, int]] = []
    path = download_from(server, tmp_path, progress=lambda *p: progress.append(p))
    assert path.read_bytes() == CONTENT
    assert progress[-1] == (len(CONTENT), len(CONTENT))
    assert progress == sorted(progress)
    assert {p.name for p in tmp_path.iterdir()} == {"file.bin", "file.bin.lock"}


def test_existing_file_is_not_downloaded_again(server: Any, tmp_path: Path) -> None:
    download_from(server, tmp_path)
    download_from(server, tmp_path)
    assert len(server.requests) == 1


def test_every_published_file_has_a_sha256() -> None:
    mirrors = [m for spec in DATASETS.values() for m in spec.mirrors]
    mirrors += [m for pairs in PARALLEL_DATASETS.values() for m in pairs.mirrors.values()]
    mirrors += [m for corpus in CORPORA.values() for m in corpus.mirrors]
    assert len(mirrors) > 20
    for one in mirrors:
        assert re.fullmatch("sha256:[0-9a-f]{64}", one.digest)


def test_file_with_wrong_digest_is_replaced(server: Any, tmp_path: Path) -> None:
    (tmp_path / "file.bin").write_bytes(b"x" * len(CONTENT))
    assert download_from(server, tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("behavior", ["drop", "truncate", "crawl"])
def test_broken_download_is_resumed(server: Any, tmp_path: Path, behavior: str) -> None:
    assert download_from(server, tmp_path, behavior).read_bytes() == CONTENT
    first, second = server.requests
    assert "range" not in first
    assert int(second["range"].removeprefix("bytes=").rstrip("-")) > 0
    assert second["if-range"] == '"one"'


def test_attempts_with_progress_do_not_count(server: Any, tmp_path: Path) -> None:
    assert download_from(server, tmp_path, *["drop"] * 6, attempts=2).read_bytes() == CONTENT


def test_later_call_resumes(server: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the connection broke at 150,000 of 300,000 bytes"):
        download_from(server, tmp_path, "drop", attempts=1)
    assert not (tmp_path / "file.bin").exists()
    assert download_from(server, tmp_path).read_bytes() == CONTENT
    assert server.requests[-1]["range"] == "bytes=150000-"


def test_file_that_changed_on_the_server_is_not_resumed(server: Any, tmp_path: Path) -> None:
    server.content = CONTENT[:150_000] + b"?" * 150_000
    with pytest.raises(UserError):
        download_from(server, tmp_path, "drop", attempts=1)
    server.content, server.etag = CONTENT, '"two"'
    assert download_from(server, tmp_path).read_bytes() == CONTENT


def test_weak_etag_is_replaced_by_the_date(server: Any, tmp_path: Path) -> None:
    server.etag, server.modified = 'W/"one"', "Mon, 01 Jan 2024 00:00:00 GMT"
    assert download_from(server, tmp_path, "drop").read_bytes() == CONTENT
    assert server.requests[1]["if-range"] == server.modified


def test_without_validator_the_digest_decides(server: Any, tmp_path: Path) -> None:
    server.etag = None
    assert download_from(server, tmp_path, "drop").read_bytes() == CONTENT
    assert "if-range" not in server.requests[1]
    # The first half of another file: the digest is wrong, and the file is downloaded again.
    (tmp_path / "file.bin").rename(tmp_path / "file.bin.part")
    part = tmp_path / "file.bin.part"
    part.write_bytes(b"?" * 150_000)
    (tmp_path / "file.bin.note").write_text(
        f'{{"url": "{server.url}", "digest": "{mirror("").digest}", "validator": ""}}'
    )
    assert download_from(server, tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("plan", [["drop", "no ranges"], ["drop", "wrong range"], ["drop", "416"]])
def test_servers_with_missing_or_wrong_ranges(server: Any, tmp_path: Path, plan: list[str]) -> None:
    assert download_from(server, tmp_path, *plan).read_bytes() == CONTENT


def test_download_without_progress_is_aborted(server: Any, tmp_path: Path) -> None:
    server.etag = None
    plan = ["truncate", "no ranges", "truncate", "truncate"]
    server.content = CONTENT[:200_000]
    with pytest.raises(UserError, match=r"the connection broke|416"):
        download_from(server, tmp_path, *plan, attempts=2)


def test_corrupt_file_is_downloaded_again(server: Any, tmp_path: Path) -> None:
    assert download_from(server, tmp_path, "corrupt").read_bytes() == CONTENT
    assert len(server.requests) == 2


def test_corrupt_file_is_downloaded_again_only_once(server: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="checksum of the downloaded file is wrong"):
        download_from(server, tmp_path, *["corrupt"] * 9, attempts=9)
    assert len(server.requests) == 2
    assert not list(tmp_path.glob("*.part"))


def test_more_bytes_than_expected_are_rejected(server: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="more than the expected 300,000 bytes"):
        download_from(server, tmp_path, *["too much"] * 2, attempts=2)


def test_only_transient_errors_are_retried(server: Any, tmp_path: Path) -> None:
    assert download_from(server, tmp_path, "503", "429").read_bytes() == CONTENT
    (tmp_path / "file.bin").unlink()
    server.requests.clear()
    with pytest.raises(UserError, match="404"):
        download_from(server, tmp_path, "404")
    assert len(server.requests) == 1


def test_next_mirror_is_tried(server: Any, tmp_path: Path) -> None:
    server.plan = ["404", "normal"]
    mirrors = [mirror("http://127.0.0.1:9/none"), mirror(server.url), mirror(server.url)]
    path = download(mirrors, tmp_path / "file.bin", pause=0.0, attempts=2, timeout=1.0)
    assert path.read_bytes() == CONTENT


def test_partial_file_is_not_resumed_from_another_mirror(server: Any, tmp_path: Path) -> None:
    server.plan = ["drop"]
    other = Mirror(server.url + "?other", len(CONTENT), mirror("").digest)
    download([mirror(server.url), other], tmp_path / "file.bin", pause=0.0, attempts=1)
    assert "range" not in server.requests[1]


def test_unreachable_servers_are_reported(tmp_path: Path) -> None:
    mirrors = [mirror("http://127.0.0.1:9/none"), mirror("http://nowhere.invalid/x")]
    with pytest.raises(UserError, match=r"could not download file.bin: http.*; http") as error:
        download(mirrors, tmp_path / "file.bin", pause=0.0, attempts=1, timeout=1.0)
    assert "127.0.0.1:9" in str(error.value)


def test_only_http_addresses_are_downloaded(server: Any, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(CONTENT)
    with pytest.raises(UserError, match="not an http or https address"):
        download([mirror(secret.as_uri())], tmp_path / "file.bin")
    for url in (secret.as_uri(), "ftp://127.0.0.1/x"):
        with pytest.raises(UserError):
            download_from(server, tmp_path, *[f"to {url}"] * 2, attempts=2)
    assert not (tmp_path / "file.bin").exists()


def test_http_redirects_are_followed(server: Any, tmp_path: Path) -> None:
    assert download_from(server, tmp_path, f"to {server.url}").read_bytes() == CONTENT


@pytest.mark.parametrize("metadata", ["", "not json", "[]", "{}", '{"url": 3}'])
def test_broken_metadata_starts_over(server: Any, tmp_path: Path, metadata: str) -> None:
    (tmp_path / "file.bin.part").write_bytes(b"?" * 1000)
    (tmp_path / "file.bin.note").write_text(metadata)
    assert download_from(server, tmp_path).read_bytes() == CONTENT
    assert "range" not in server.requests[0]


def test_complete_partial_file_needs_no_request(server: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError):
        download_from(server, tmp_path, "drop", attempts=1)
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    server.requests.clear()
    assert download_from(server, tmp_path).read_bytes() == CONTENT
    assert not server.requests


def test_matches_any_mirror(tmp_path: Path) -> None:
    path = tmp_path / "x"
    assert not matches_any_mirror(path, [mirror("")])
    path.write_bytes(CONTENT[:-1])
    assert not matches_any_mirror(path, [mirror("")])
    path.write_bytes(CONTENT)
    assert matches_any_mirror(path, [mirror("", b"other"), mirror("")])


HOLD_LOCK = """
import sys
from pathlib import Path
from workings.io import file_lock
with file_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(os.name == "nt", reason="uses Unix locks")
def test_processes_wait_for_the_lock(server: Any, tmp_path: Path) -> None:
    import fcntl

    lock = tmp_path / "file.bin.lock"
    command = [sys.executable, "-c", HOLD_LOCK, str(lock)]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with lock.open("ab") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        process.communicate(timeout=20)
    assert download_from(server, tmp_path).read_bytes() == CONTENT
