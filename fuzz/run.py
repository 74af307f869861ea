"""Fuzz one reader, or all of them, for a number of seconds each.

    python fuzz/run.py READER|all [--seconds 60] [--seed 0] [--engine plain|atheris]

With the package atheris (Linux), mutations are guided by code coverage; without it, valid files are
mutated at random. A finding is written to fuzz/findings/, and the exit status is 1; `--reproduce
FILE` reads a finding once more.
"""

import argparse
import faulthandler
import math
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
MAX_SECONDS = 20.0  # for one input
MEMORY = 3 * 2**30  # bytes that a reader may allocate
MAX_INPUT_BYTES = 20_000


def readers():
    """Return all readers by name; imported late, so that atheris can instrument them."""
    from document_readers import DOCUMENT_READERS
    from images import IMAGE_READERS
    from interop import INTEROP_READERS
    from readers import READERS
    from runs import RUN_READERS

    return {**READERS, **DOCUMENT_READERS, **IMAGE_READERS, **RUN_READERS, **INTEROP_READERS}


def mutate(rng: random.Random, seeds: list[bytes], words: list[bytes]) -> bytes:
    """Return a seed with a few mutations: bytes, words, repetitions, or parts of other seeds."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randint(0, len(data))
        end = min(len(data), at + rng.choice((0, 1, 1, 2, 4, 8, 64, 1000)))
        kind = rng.randrange(9)
        if kind == 0 and data:
            data[min(at, len(data) - 1)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at:end] = rng.randbytes(rng.randint(1, 4))
        elif kind == 2:
            data[at:end] = b""
        elif kind == 3 and words:
            data[at:end] = rng.choice(words)
        elif kind == 4:
            data[at:at] = data[at:end] * rng.choice((1, 2, 30, 1000))
        elif kind == 5:
            other = rng.choice(seeds)
            start = rng.randint(0, len(other))
            data[at:end] = other[start : start + rng.choice((4, 30, 10**6))]
        elif kind == 6:
            digits = [i for i, c in enumerate(data) if 48 <= c < 58]
            if digits:
                place = rng.choice(digits)
                data[place : place + 1] = rng.choice((b"-1", b"0", b"1e9", b"9" * 30, b"2.5"))
        elif kind == 7:
            data[at:end] = rng.choice((0, 1, 2**31, 2**64 - 1)).to_bytes(8, "little")
        else:
            other = rng.randint(0, len(data))
            data[at:end] = data[other : other + end - at]
    return bytes(data[:MAX_INPUT_BYTES])


def fuzz(
    name: str, seed: int = 0, *, seconds: float = math.inf, max_files: float = math.inf
) -> tuple[int, int]:
    """Read mutated files up to a time or a number; return how many, and how many were accepted."""
    from readers import read_or_refuse

    reader = readers()[name]
    rng = random.Random(seed)  # noqa: S311
    seeds, words = list(reader.seeds()), [w.encode("utf-8", "replace") for w in reader.words]
    for data in seeds:
        read_or_refuse(reader, data)
    count = accepted = 0
    deadline = time.monotonic() + seconds
    while count < max_files and time.monotonic() < deadline:
        data = mutate(rng, seeds, words)
        count += 1
        faulthandler.dump_traceback_later(3 * MAX_SECONDS, exit=True)
        start = time.process_time()
        try:
            accepted += read_or_refuse(reader, data)
            elapsed = time.process_time() - start
            assert elapsed < MAX_SECONDS, f"reading took {elapsed:.0f} seconds"
        except BaseException:
            _save_finding(name, data)
            raise
        finally:
            faulthandler.cancel_dump_traceback_later()
    return count, accepted


def _save_finding(name: str, data: bytes) -> None:
    FINDINGS.mkdir(exist_ok=True)
    path = FINDINGS / f"{name}-{abs(hash(data)):x}"
    path.write_bytes(data)
    sys.stderr.write(f"finding: {path}\n")


def fuzz_guided(name: str, seconds: float, seed: int) -> None:
    """Fuzz with atheris, which ends the process when it is done."""
    import atheris

    with atheris.instrument_imports(
        include=[
            *("workings", "readers", "images", "runs", "interop"),
            *("tomllib", "csv", "gzip", "tarfile", "zipfile"),
        ],
        exclude=["workings.problems.kinds"],
    ):
        from readers import read_or_refuse, work_folder

        reader = readers()[name]
    FINDINGS.mkdir(exist_ok=True)
    corpus = work_folder() / "corpus"
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
        read_or_refuse(reader, data)

    options = [
        f"-max_total_time={max(1, round(seconds))}", f"-seed={seed + 1}",
        f"-max_len={MAX_INPUT_BYTES}", "-len_control=20",
        f"-timeout={round(3 * MAX_SECONDS)}", "-rss_limit_mb=4096", f"-dict={dictionary}",
        f"-artifact_prefix={FINDINGS / name}-", "-print_final_stats=1", "-verbosity=1",
    ]  # fmt: skip
    atheris.Setup([sys.argv[0], *options, str(corpus)], one)
    atheris.Fuzz()


def limit_memory() -> None:
    """Limit this process's memory, so that a reader that allocates gigabytes fails."""
    if sys.platform != "linux":
        return
    import resource

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY,) * 2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("reader", metavar="READER")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine", choices=("plain", "atheris"))
    parser.add_argument("--reproduce", metavar="FILE", help="read a finding once more")
    options = parser.parse_args()
    engine = options.engine or ("atheris" if find_spec("atheris") else "plain")
    if options.reader == "all":
        return _fuzz_all(options, engine)
    if options.reproduce:
        from readers import read_or_refuse

        sys.stdout.write(
            f"{read_or_refuse(readers()[options.reader], Path(options.reproduce).read_bytes())}\n"
        )
    elif engine == "atheris" and "FUZZ_FOLDER" in os.environ:
        fuzz_guided(options.reader, options.seconds, options.seed)
    elif engine == "atheris":  # it exits without cleaning up: run it in a separate process
        from readers import memory_folder

        with tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory_folder()) as folder:
            os.environ["FUZZ_FOLDER"] = folder
            return subprocess.call([sys.executable, *sys.argv])
    else:
        readers()[options.reader].seeds()
        limit_memory()
        try:
            count, accepted = fuzz(options.reader, options.seed, seconds=options.seconds)
        except BaseException:
            traceback.print_exc()
            return 1
        sys.stdout.write(f"{options.reader}: {count:,} files, {accepted:,} of them accepted\n")
    return 0


def _fuzz_all(options: argparse.Namespace, engine: str) -> int:
    failed = []
    for name in readers():
        command = [sys.executable, __file__, name, "--seconds", str(options.seconds)]
        command += ["--seed", str(options.seed), "--engine", engine]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        sys.stdout.write(
            f"{name}: status {done.returncode}\n{_last_lines(done.stdout + done.stderr)}\n"
        )
        sys.stdout.flush()
        if done.returncode:
            failed.append(name)
    sys.stdout.write(f"findings: {', '.join(failed) or 'none'}\n")
    return bool(failed)


def _last_lines(output: str) -> str:
    lines = [line for line in output.splitlines() if not line.startswith(("#", "\t", "INFO", '"'))]
    return "\n".join(lines[-12:])


if __name__ == "__main__":
    sys.exit(main())
