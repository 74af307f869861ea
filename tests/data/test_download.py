import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from workings.data.download import Mirror, download, matches_any_mirror
from workings.errors import UserError

CONTENT = random.Random(0).randbytes(300_000)  # noqa: S311


def mirror(url: str, content: bytes = CONTENT, method: str = "sha256") -> Mirror:
    return Mirror(url, len(content), f"{method}:{hashlib.new(method, content).hexdigest()}")


@pytest.fixture(autouse=True)
def content(server: Any) -> None:
    server.content = CONTENT


def fetched(server: Any, folder: Path, *plan: str, **more: Any) -> Path:
    server.plan = list(plan)
    return download([mirror(server.url)], folder / "file.bin", pause=0.0, timeout=5.0, **more)


def test_a_good_day(server: Any, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    path = fetched(server, tmp_path, progress=lambda have, size: seen.append((have, size)))
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert seen == sorted(seen)
    assert {p.name for p in tmp_path.iterdir()} == {"file.bin", "file.bin.lock"}


def test_what_is_there_is_not_fetched_again(server: Any, tmp_path: Path) -> None:
    fetched(server, tmp_path)
    fetched(server, tmp_path)
    assert len(server.requests) == 1


def test_md5_where_the_publisher_has_nothing_better(server: Any, tmp_path: Path) -> None:
    path = download([mirror(server.url, method="md5")], tmp_path / "file.bin")
    assert path.read_bytes() == CONTENT


def test_a_spoilt_copy_is_replaced(server: Any, tmp_path: Path) -> None:
    (tmp_path / "file.bin").write_bytes(b"x" * len(CONTENT))
    assert fetched(server, tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("way", ["drop", "truncate", "crawl"])
def test_what_broke_off_is_continued(server: Any, tmp_path: Path, way: str) -> None:
    assert fetched(server, tmp_path, way).read_bytes() == CONTENT
    first, second = server.requests
    assert "range" not in first
    assert int(second["range"].removeprefix("bytes=").rstrip("-")) > 0
    assert second["if-range"] == '"one"'


def test_many_drops_are_survived_while_it_gets_further(server: Any, tmp_path: Path) -> None:
    assert fetched(server, tmp_path, *["drop"] * 6, attempts=2).read_bytes() == CONTENT


def test_a_later_call_continues(server: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="broke off at 150,000 of 300,000"):
        fetched(server, tmp_path, "drop", attempts=1)
    assert not (tmp_path / "file.bin").exists()
    assert fetched(server, tmp_path).read_bytes() == CONTENT
    assert server.requests[-1]["range"] == "bytes=150000-"


def test_a_file_that_changed_meanwhile_is_fetched_anew(server: Any, tmp_path: Path) -> None:
    server.content = CONTENT[:150_000] + b"?" * 150_000
    with pytest.raises(UserError):
        fetched(server, tmp_path, "drop", attempts=1)
    server.content, server.etag = CONTENT, '"two"'
    assert fetched(server, tmp_path).read_bytes() == CONTENT


def test_a_date_serves_where_the_tag_is_weak(server: Any, tmp_path: Path) -> None:
    server.etag, server.modified = 'W/"one"', "Mon, 01 Jan 2024 00:00:00 GMT"
    assert fetched(server, tmp_path, "drop").read_bytes() == CONTENT
    assert server.requests[1]["if-range"] == server.modified


def test_without_a_validator_the_checksum_decides(server: Any, tmp_path: Path) -> None:
    server.etag = None
    assert fetched(server, tmp_path, "drop").read_bytes() == CONTENT
    assert "if-range" not in server.requests[1]
    # A first half that belongs to another file: found out, and fetched whole.
    (tmp_path / "file.bin").rename(tmp_path / "file.bin.part")
    part = tmp_path / "file.bin.part"
    part.write_bytes(b"?" * 150_000)
    (tmp_path / "file.bin.note").write_text(
        f'{{"url": "{server.url}", "digest": "{mirror("").digest}", "validator": ""}}'
    )
    assert fetched(server, tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("plan", [["drop", "no ranges"], ["drop", "wrong range"], ["drop", "416"]])
def test_servers_without_ranges(server: Any, tmp_path: Path, plan: list[str]) -> None:
    assert fetched(server, tmp_path, *plan).read_bytes() == CONTENT


def test_a_server_that_never_gets_further_is_given_up(server: Any, tmp_path: Path) -> None:
    server.etag = None
    plan = ["truncate", "no ranges", "truncate", "truncate"]
    server.content = CONTENT[:200_000]
    with pytest.raises(UserError, match=r"broke off|416"):
        fetched(server, tmp_path, *plan, attempts=2)


def test_corruption_is_noticed_and_repaired(server: Any, tmp_path: Path) -> None:
    assert fetched(server, tmp_path, "corrupt").read_bytes() == CONTENT
    assert len(server.requests) == 2


def test_corruption_is_not_fetched_again_and_again(server: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="checksum differs"):
        fetched(server, tmp_path, *["corrupt"] * 9, attempts=9)
    assert len(server.requests) == 2
    assert not list(tmp_path.glob("*.part"))


def test_more_than_promised_is_refused(server: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="more than the 300,000 bytes"):
        fetched(server, tmp_path, *["too much"] * 2, attempts=2)


def test_passing_errors_are_retried_and_lasting_ones_not(server: Any, tmp_path: Path) -> None:
    assert fetched(server, tmp_path, "503", "429").read_bytes() == CONTENT
    (tmp_path / "file.bin").unlink()
    server.requests.clear()
    with pytest.raises(UserError, match="404"):
        fetched(server, tmp_path, "404")
    assert len(server.requests) == 1


def test_the_next_mirror_takes_over(server: Any, tmp_path: Path) -> None:
    server.plan = ["404", "well"]
    mirrors = [mirror("http://127.0.0.1:9/none"), mirror(server.url), mirror(server.url)]
    path = download(mirrors, tmp_path / "file.bin", pause=0.0, attempts=2, timeout=1.0)
    assert path.read_bytes() == CONTENT


def test_a_half_from_one_mirror_is_not_continued_from_another(server: Any, tmp_path: Path) -> None:
    server.plan = ["drop"]
    other = Mirror(server.url + "?other", len(CONTENT), mirror("").digest)
    download([mirror(server.url), other], tmp_path / "file.bin", pause=0.0, attempts=1)
    assert "range" not in server.requests[1]


def test_nobody_there(tmp_path: Path) -> None:
    mirrors = [mirror("http://127.0.0.1:9/none"), mirror("http://nowhere.invalid/x")]
    with pytest.raises(UserError, match=r"could not download file.bin: http.*; http") as error:
        download(mirrors, tmp_path / "file.bin", pause=0.0, attempts=1, timeout=1.0)
    assert "127.0.0.1:9" in str(error.value)


def test_only_the_web(server: Any, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(CONTENT)
    with pytest.raises(UserError, match="not a web address"):
        download([mirror(secret.as_uri())], tmp_path / "file.bin")
    for place in (secret.as_uri(), "ftp://127.0.0.1/x"):
        with pytest.raises(UserError):
            fetched(server, tmp_path, *[f"to {place}"] * 2, attempts=2)
    assert not (tmp_path / "file.bin").exists()


def test_redirections_within_the_web(server: Any, tmp_path: Path) -> None:
    assert fetched(server, tmp_path, f"to {server.url}").read_bytes() == CONTENT


@pytest.mark.parametrize("note", ["", "not json", "[]", "{}", '{"url": 3}'])
def test_a_broken_note_starts_anew(server: Any, tmp_path: Path, note: str) -> None:
    (tmp_path / "file.bin.part").write_bytes(b"?" * 1000)
    (tmp_path / "file.bin.note").write_text(note)
    assert fetched(server, tmp_path).read_bytes() == CONTENT
    assert "range" not in server.requests[0]


def test_a_part_that_is_whole_needs_no_request(server: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError):
        fetched(server, tmp_path, "drop", attempts=1)
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    server.requests.clear()
    assert fetched(server, tmp_path).read_bytes() == CONTENT
    assert not server.requests


def test_is_good(tmp_path: Path) -> None:
    path = tmp_path / "x"
    assert not matches_any_mirror(path, [mirror("")])
    path.write_bytes(CONTENT[:-1])
    assert not matches_any_mirror(path, [mirror("")])
    path.write_bytes(CONTENT)
    assert matches_any_mirror(path, [mirror("", b"other"), mirror("")])


HOLD = """
import sys
from pathlib import Path
from workings.io import file_lock
with file_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(os.name == "nt", reason="asks the lock of Unix")
def test_two_processes_wait_for_each_other(server: Any, tmp_path: Path) -> None:
    import fcntl

    lock = tmp_path / "file.bin.lock"
    command = [sys.executable, "-c", HOLD, str(lock)]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with lock.open("ab") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        process.communicate(timeout=20)
    assert fetched(server, tmp_path).read_bytes() == CONTENT
