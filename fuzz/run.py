"""Fuzz one reader, or all of them, for so many seconds each.

    python fuzz/run.py READER|all [--seconds 60] [--seed 0] [--engine plain|atheris]

With the package atheris (Linux) mutations are guided by what the code does with them; without it
they are drawn at random from whole files. A finding is written to fuzz/findings/ and ends it with
status 1; `--again FILE` reads a finding once more.
"""

import argparse
import faulthandler
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

FINDINGS = Path(__file__).with_name("findings")
SLOWEST = 20.0  # seconds for one input
MEMORY = 3 * 2**30  # bytes more than at the beginning
LONGEST = 20_000  # bytes of an input


def readers():
    """All of them; imported late, so that atheris can watch."""
    from hub import HUB_READERS
    from pictures import PICTURE_READERS
    from readers import READERS
    from runs import RUN_READERS

    return {**READERS, **PICTURE_READERS, **RUN_READERS, **HUB_READERS}


def mutated(draw: random.Random, seeds: list[bytes], words: list[bytes]) -> bytes:
    """Change a file a few times: bytes, words, stretches, or a piece of another file."""
    data = bytearray(draw.choice(seeds))
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        at = draw.randint(0, len(data))
        end = min(len(data), at + draw.choice((0, 1, 1, 2, 4, 8, 64, 1000)))
        way = draw.randrange(9)
        if way == 0 and data:
            data[min(at, len(data) - 1)] ^= 1 << draw.randrange(8)
        elif way == 1:
            data[at:end] = draw.randbytes(draw.randint(1, 4))
        elif way == 2:
            data[at:end] = b""
        elif way == 3 and words:
            data[at:end] = draw.choice(words)
        elif way == 4:
            data[at:at] = data[at:end] * draw.choice((1, 2, 30, 1000))
        elif way == 5:
            other = draw.choice(seeds)
            start = draw.randint(0, len(other))
            data[at:end] = other[start : start + draw.choice((4, 30, 10**6))]
        elif way == 6:
            digits = [i for i, c in enumerate(data) if 48 <= c < 58]
            if digits:
                place = draw.choice(digits)
                data[place : place + 1] = draw.choice((b"-1", b"0", b"1e9", b"9" * 30, b"2.5"))
        elif way == 7:
            data[at:end] = draw.choice((0, 1, 2**31, 2**64 - 1)).to_bytes(8, "little")
        else:
            other = draw.randint(0, len(data))
            data[at:end] = data[other : other + end - at]
    return bytes(data[:LONGEST])


def fuzz(name: str, seconds: float, seed: int = 0) -> tuple[int, int]:
    """Read mutated files until the time is over: how many, and how many were taken as whole."""
    from readers import survive

    reader = readers()[name]
    draw = random.Random(seed)  # noqa: S311
    seeds, words = list(reader.seeds()), [w.encode("utf-8", "replace") for w in reader.words]
    for data in seeds:
        survive(reader, data)
    count = taken = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        data = mutated(draw, seeds, words)
        count += 1
        faulthandler.dump_traceback_later(3 * SLOWEST, exit=True)
        start = time.process_time()
        try:
            taken += survive(reader, data)
            took = time.process_time() - start
            assert took < SLOWEST, f"it took {took:.0f} seconds"
        except BaseException:
            _keep(name, data)
            raise
        finally:
            faulthandler.cancel_dump_traceback_later()
    return count, taken


def _keep(name: str, data: bytes) -> None:
    FINDINGS.mkdir(exist_ok=True)
    path = FINDINGS / f"{name}-{abs(hash(data)):x}"
    path.write_bytes(data)
    sys.stderr.write(f"finding: {path}\n")


def watched(name: str, seconds: float, seed: int) -> None:
    """The same, guided by atheris, which ends the process when it is done."""
    import atheris

    with atheris.instrument_imports(
        include=[
            *("workings", "readers", "pictures", "runs", "hub"),
            *("tomllib", "csv", "gzip", "tarfile", "zipfile"),
        ],
        exclude=["workings.problems.kinds"],
    ):
        from readers import desk, survive

        reader = readers()[name]
    FINDINGS.mkdir(exist_ok=True)
    corpus = desk() / "corpus"
    corpus.mkdir()
    for k, data in enumerate(reader.seeds()):
        (corpus / str(k)).write_bytes(data)
    lines = []
    for k, word in enumerate(reader.words):
        raw = word.encode("utf-8", "replace")[:64]
        lines.append(f'word{k}="' + "".join(f"\\x{byte:02x}" for byte in raw) + '"')
    dictionary = corpus.with_suffix(".words")
    dictionary.write_text("\n".join(lines) + "\n")

    def one(data: bytes) -> None:
        survive(reader, data)

    options = [
        f"-max_total_time={max(1, round(seconds))}", f"-seed={seed + 1}",
        f"-max_len={LONGEST}", "-len_control=20",
        f"-timeout={round(3 * SLOWEST)}", "-rss_limit_mb=4096", f"-dict={dictionary}",
        f"-artifact_prefix={FINDINGS / name}-", "-print_final_stats=1", "-verbosity=1",
    ]  # fmt: skip
    atheris.Setup([sys.argv[0], *options, str(corpus)], one)
    atheris.Fuzz()


def limit_memory() -> None:
    """Let what takes gigabytes fail."""
    if sys.platform != "linux":
        return
    import resource

    have = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (have + MEMORY,) * 2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("reader", metavar="READER")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine", choices=("plain", "atheris"))
    parser.add_argument("--again", metavar="FILE", help="read a finding once more")
    options = parser.parse_args()
    engine = options.engine or ("atheris" if find_spec("atheris") else "plain")
    if options.reader == "all":
        return _all(options, engine)
    if options.again:
        from readers import survive

        sys.stdout.write(
            f"{survive(readers()[options.reader], Path(options.again).read_bytes())}\n"
        )
    elif engine == "atheris" and "FUZZ_DESK" in os.environ:
        watched(options.reader, options.seconds, options.seed)
    elif engine == "atheris":  # which leaves without clearing up: in a process of its own
        from readers import memory

        with tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory()) as prepared:
            os.environ["FUZZ_DESK"] = prepared
            return subprocess.call([sys.executable, *sys.argv])
    else:
        readers()[options.reader].seeds()
        limit_memory()
        try:
            count, taken = fuzz(options.reader, options.seconds, options.seed)
        except BaseException:
            traceback.print_exc()
            return 1
        sys.stdout.write(f"{options.reader}: {count:,} files, {taken:,} of them taken\n")
    return 0


def _all(options: argparse.Namespace, engine: str) -> int:
    failed = []
    for name in readers():
        command = [sys.executable, __file__, name, "--seconds", str(options.seconds)]
        command += ["--seed", str(options.seed), "--engine", engine]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        sys.stdout.write(f"{name}: status {done.returncode}\n{_gist(done.stdout + done.stderr)}\n")
        sys.stdout.flush()
        if done.returncode:
            failed.append(name)
    sys.stdout.write(f"findings: {', '.join(failed) or 'none'}\n")
    return bool(failed)


def _gist(said: str) -> str:
    kept = [line for line in said.splitlines() if not line.startswith(("#", "\t", "INFO", '"'))]
    return "\n".join(kept[-12:])


if __name__ == "__main__":
    sys.exit(main())
