"""Compare a model of GPT-2 small's size with transformers: loading, prefill and generation.

    python bench/gpt2.py [--rounds 7] [--threads 1]

The model has GPT-2 small's shape, 124 million weights, in Hugging Face's layout. The weights are
random: no time depends on them. Each program has its own process, they take turns, and a ratio is
the median of the rounds' ratios. transformers has its best settings: fused attention, its own
cache.

- load: the model of the folder, which is in the disk cache, and the logits of one token:
  transformers maps the file into memory, and reads the weights when they are first used.
- prefill: the logits of 512 tokens.
- generate: 40 tokens after 8, greedy.

Writes results/gpt2.json. Needs `pip install '.[bench]'`.
"""

import argparse
import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from processes import run_in_turn, serve
from report import explain_import_error, ratio, save_parts
from workings.decode import generate
from workings.interop.huggingface import read_config
from workings.interop.language_models import read_language_model, write_language_model
from workings.models.language import build_language_model

VOCABULARY = 50257
TABLE = {
    "kind": "transformer",
    "d_model": 768,
    "layers": 12,
    "heads": 12,
    "positions": "learned",
    "max_positions": 1024,
    "activation": "gelu-tanh",
    "tie_embeddings": True,
}
PREFILL, PROMPT, TOKENS = 512, 8, 40
PROGRAMS = ("workings", "transformers")
PARTS = ("load", "prefill", "generate")


def write_model(folder: Path) -> None:
    """Write a model with random weights, as `GPT2LMHeadModel.save_pretrained` does."""
    torch.manual_seed(0)
    write_language_model(build_language_model(TABLE, VOCABULARY).eval(), folder, "gpt2")


def load_ours(folder: Path) -> Any:
    return read_language_model(folder, read_config(folder))


def load_theirs(folder: Path) -> Any:
    with explain_import_error():
        from transformers import GPT2LMHeadModel

    return GPT2LMHeadModel.from_pretrained(folder, attn_implementation="sdpa").eval()


def logits_of(output: Any) -> Tensor:
    """Return the logits of a text, [time, vocabulary]."""
    logits = output[0] if isinstance(output, tuple) else output.logits
    return logits[0]


def make_work(program: str, part: str, folder: Path) -> Callable[[], Any]:
    """Return a function that does the work of a part; its result is the same for both programs."""
    load = load_ours if program == "workings" else load_theirs
    if part == "load":
        token = torch.ones(1, 1, dtype=torch.long)
        return lambda: len(logits_of(load(folder)(token)))
    model = load(folder)
    rng = torch.Generator().manual_seed(0)
    length = PREFILL if part == "prefill" else PROMPT
    ids = torch.randint(VOCABULARY, (1, length), generator=rng)
    if part == "prefill":
        return lambda: int(logits_of(model(ids))[-1].argmax())
    if program == "workings":
        return lambda: [int(token) for token, _ in generate(model, ids, TOKENS)]
    settings = {"max_new_tokens": TOKENS, "min_new_tokens": TOKENS, "do_sample": False}
    mask = torch.ones_like(ids)
    return lambda: model.generate(ids, attention_mask=mask, **settings)[0, PROMPT:].tolist()


def measure(part: str, folder: Path, rounds: int) -> list[dict[str, Any]]:
    commands = {p: [__file__, "--serve", p, part, str(folder)] for p in PROGRAMS}
    times, results = run_in_turn(commands, rounds)
    assert results["workings"] == results["transformers"], results
    return [
        {
            "program": program,
            "ms": round(statistics.median(measured), 1),
            "× transformers": round(ratio(times["transformers"], measured), 2),
        }
        for program, measured in times.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS, metavar="PART")
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        program, part, folder = options.serve
        serve(make_work(program, part, Path(folder)))
        return
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder))
        parts = {p: lambda p=p: measure(p, Path(folder), options.rounds) for p in options.parts}
        save_parts("gpt2", parts, ("transformers",), rounds=options.rounds)


if __name__ == "__main__":
    main()
