"""Compare language models with Hugging Face GPT-2 and x-transformers: steps, generation, loss.

    python bench/language.py [--parts train generate growth loss] [--rounds 7] [--threads 1]

Peers get their best settings: fused attention (sdpa, flash), fused AdamW, the same activation, no
dropout, their own caches. Everything is interleaved in one run, and a ratio is the median of the
rounds' ratios. For generation, each implementation has its own process, and they take turns: two
engines in one process affect each other. Needs `pip install '.[bench]'`; missing packages are
skipped.

- train: milliseconds of a step (forward, backward, AdamW) in the small and middle shape, and the
  fraction of the speed of a large matrix product on this machine.
- generate: 256 tokens, greedy, one text, small shape with 320 positions.
- growth: the cost of a token at position 1,024 over one at 32, beyond attention itself.
- loss: nanoGPT's CPU recipe and ours, complete trainings in turn: which reaches its loss, and when.

Writes results/language.json, part by part.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from processes import run_in_turn, serve
from report import explain_import_error, ratio, save_parts
from workings.decode import generate
from workings.models.language import LanguageModel, build_language_model

ROOT = Path(__file__).parents[1]
VOCABULARY = 68
SHAPES = {  # layers, heads, width, context length, batch: nanoGPT's
    "small": (4, 4, 128, 64, 12),
    "middle": (6, 6, 384, 256, 8),
}
TOKENS, POSITIONS = 256, 320


def ours(layers: int, heads: int, width: int, length: int) -> LanguageModel:
    table = {"kind": "transformer", "layers": layers, "heads": heads, "d_model": width}
    return build_language_model(
        {**table, "positions": "learned", "max_positions": length}, VOCABULARY
    )


def hugging_face(layers: int, heads: int, width: int, length: int) -> nn.Module:
    with explain_import_error():
        from transformers import GPT2Config, GPT2LMHeadModel

    rates = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    ids = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=length,
        n_embd=width,
        n_layer=layers,
        n_head=heads,
        activation_function="gelu",
        attn_implementation="sdpa",
        **rates,
        **ids,
    )
    return GPT2LMHeadModel(config)


def x_transformers(layers: int, heads: int, width: int, length: int) -> nn.Module:
    from x_transformers import Decoder, TransformerWrapper

    blocks = Decoder(
        dim=width, depth=layers, heads=heads, attn_dim_head=width // heads, attn_flash=True
    )
    return TransformerWrapper(
        num_tokens=VOCABULARY, max_seq_len=length, attn_layers=blocks, tie_embedding=True
    )


PEERS = {
    "workings": (ours, "workings"),
    "Hugging Face": (hugging_face, "transformers"),
    "x-transformers": (x_transformers, "x_transformers"),
}


def installed_peers() -> dict[str, Callable[..., nn.Module]]:
    return {name: make for name, (make, package) in PEERS.items() if find_spec(package)}


# -- training steps --------------------------------------------------------------------------------


def logits_of(output: Any) -> Tensor:
    logits = output if isinstance(output, Tensor) else getattr(output, "logits", None)
    return output[0] if logits is None else logits


def make_step(make: Callable[..., nn.Module], shape: tuple[int, ...]) -> Callable[[], None]:
    """Return a training step of a new model on random text."""
    layers, heads, width, length, batch = shape
    torch.manual_seed(0)
    model = make(layers, heads, width, length).train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=True)
    ids = torch.randint(VOCABULARY, (batch, length + 1))
    inputs, targets = ids[:, :-1].contiguous(), ids[:, 1:].flatten()

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        logits = logits_of(model(inputs))
        torch.autograd.backward(F.cross_entropy(logits.flatten(0, 1), targets))
        optimizer.step()

    return step


def count_operations(shape: tuple[int, ...]) -> float:
    """Return the operations of a step: products with weights, and causal attention."""
    layers, _, width, length, batch = shape
    weights = layers * 12 * width**2 + width * VOCABULARY
    attention = layers * width * length  # two products, half of each because of the causal mask
    return 6.0 * batch * length * (weights + attention)


def matmul_speed(seconds: float = 1.0) -> float:
    """Return the operations per second of a large matrix product."""
    a, b = torch.randn(2, 1536, 1536)
    a @ b
    rates = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        a @ b
        rates.append(2 * 1536**3 / (time.perf_counter() - start))
    return statistics.median(rates)


def train_part(rounds: int) -> list[dict[str, Any]]:
    rows = []
    for name, shape in SHAPES.items():
        steps = {peer: make_step(make, shape) for peer, make in installed_peers().items()}
        times: dict[str, list[float]] = {peer: [] for peer in steps}
        fastest = matmul_speed()
        repeat = 10 if name == "small" else 1
        for peer in steps:
            steps[peer]()
        for number in range(rounds):
            order = list(steps)
            for peer in order[number % len(order) :] + order[: number % len(order)]:
                start = time.perf_counter()
                for _ in range(repeat):
                    steps[peer]()
                times[peer].append((time.perf_counter() - start) / repeat * 1e3)
            fastest = max(fastest, matmul_speed(0.2))
        row: dict[str, Any] = {"shape": name}
        for peer, measured in times.items():
            row[f"{peer} ms"] = round(statistics.median(measured), 1)
        for peer in list(times)[1:]:
            row[f"× {peer}"] = round(ratio(times[peer], times["workings"]), 2)
        rate = count_operations(shape) / (statistics.median(times["workings"]) / 1e3)
        row["of peak"] = round(rate / fastest, 2)
        rows.append(row)
    return rows


# -- generation ------------------------------------------------------------------------------------


def make_generator(name: str) -> Callable[[], int]:
    """Return a function that generates TOKENS tokens and returns their number."""
    torch.manual_seed(0)
    layers, heads, width, _, _ = SHAPES["small"]
    prompt = torch.ones(1, 1, dtype=torch.long)
    if name == "workings":
        model = ours(layers, heads, width, POSITIONS).eval()
        return lambda: sum(1 for _ in generate(model, prompt, TOKENS))
    if name == "workings, CTranslate2":
        from workings.interop.ctranslate2 import GenerationEngine

        engine = GenerationEngine(ours(layers, heads, width, POSITIONS).eval())
        return lambda: sum(1 for _ in engine.generate(prompt, TOKENS))
    theirs = PEERS[name][0](layers, heads, width, POSITIONS).eval()
    if name == "Hugging Face":
        settings = {"max_new_tokens": TOKENS, "min_new_tokens": TOKENS, "do_sample": False}
        return lambda: theirs.generate(prompt, use_cache=True, **settings).shape[1] - 1  # type: ignore[operator]
    from x_transformers import AutoregressiveWrapper

    wrapped = AutoregressiveWrapper(theirs)
    return lambda: wrapped.generate(prompt, TOKENS, temperature=0.0, cache_kv=True).shape[1]


def generate_part(rounds: int) -> list[dict[str, Any]]:
    names = list(installed_peers())
    if find_spec("ctranslate2"):
        names.append("workings, CTranslate2")
    times, counts = run_in_turn({name: [__file__, "--serve", name] for name in names}, rounds)
    assert set(counts.values()) == {TOKENS}, counts
    rows = []
    for name, measured in times.items():
        row: dict[str, Any] = {"who": name, "ms": round(statistics.median(measured), 1)}
        if "Hugging Face" in times:
            row["× Hugging Face"] = round(ratio(times["Hugging Face"], measured), 2)
        rows.append(row)
    return rows


# -- growth ----------------------------------------------------------------------------------------


@torch.inference_mode()
def growth_part(rounds: int) -> list[dict[str, Any]]:
    layers, heads, width, _, _ = SHAPES["small"]
    model = ours(layers, heads, width, 1200).eval()
    positions = (32, 1024)
    step_times: dict[int, list[float]] = {p: [] for p in positions}
    attention_times: dict[int, list[float]] = {p: [] for p in positions}
    token = torch.ones(1, dtype=torch.long)
    states = {p: model.start(torch.ones(1, p, dtype=torch.long))[1] for p in positions}
    query = torch.randn(1, heads, 1, width // heads)
    key_values = {p: torch.randn(layers, 2, 1, heads, p, width // heads) for p in positions}
    for _ in range(rounds * 8):
        for position in positions:
            start = time.perf_counter()
            _, states[position] = model.step(token, states[position])
            step_times[position].append((time.perf_counter() - start) * 1e6)
            start = time.perf_counter()
            for key, value in key_values[position]:
                F.scaled_dot_product_attention(query, key, value)
            attention_times[position].append((time.perf_counter() - start) * 1e6)
    early, late = (statistics.median(step_times[p]) for p in positions)
    attention_early, attention_late = (statistics.median(attention_times[p]) for p in positions)
    attention = attention_late - attention_early
    return [
        {
            "µs at 32": round(early),
            "µs at 1,024": round(late),
            "attention's own share": round(attention),
            "growth beyond it": round((late - early - attention) / early, 3),
        }
    ]


# -- time to loss ----------------------------------------------------------------------------------


def loss_part(rounds: int, recipes: tuple[str, ...]) -> list[dict[str, Any]]:
    """Train each recipe in turn; the seconds do not include evaluation."""
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in recipes}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            for name in recipes if number % 2 == 0 else recipes[::-1]:
                out = Path(folder) / f"{name}-{number}"
                command = [sys.executable, "-m", "workings", "train"]
                command += [str(ROOT / "recipes" / f"{name}.toml"), "--out", str(out), "--quiet"]
                command += ["--threads", str(torch.get_num_threads()), "--data.sample", "0"]
                subprocess.run([*command, "--seed", str(number + 1)], check=True)
                lines = (out / "log.jsonl").read_text().splitlines()
                epochs = [r for r in map(json.loads, lines) if r["kind"] == "epoch"]
                results[name].append({"seconds": epochs[-1]["seconds"], "epochs": epochs})
    base = results[recipes[0]]
    rows = []
    for name, runs in results.items():
        reached = [first_below(run, last_loss(b)) for run, b in zip(runs, base, strict=True)]
        rows.append(
            {
                "recipe": name,
                "nats": round(statistics.median(last_loss(run) for run in runs), 4),
                "seconds": round(statistics.median(run["seconds"] for run in runs), 1),
                "reaches the first's after": reached[0] if len(reached) == 1 else reached,
                "of its time": [
                    None if r is None else round(r / b["seconds"], 3)
                    for r, b in zip(reached, base, strict=True)
                ],
            }
        )
    return rows


def last_loss(run: dict[str, Any]) -> float:
    return float(run["epochs"][-1]["validation_loss"])


def first_below(run: dict[str, Any], loss: float) -> float | None:
    return next((r["seconds"] for r in run["epochs"] if r["validation_loss"] <= loss), None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--parts", nargs="+", default=["train", "generate", "growth", "loss"], metavar="PART"
    )
    parser.add_argument("--loss-rounds", type=int, default=1)
    parser.add_argument(
        "--recipes", nargs="+", default=["shakespeare-nano", "shakespeare-quick"], metavar="NAME"
    )
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]) if options.serve else options.threads)
    if options.serve:
        serve(make_generator(options.serve))
        return
    parts = {
        "train": lambda: train_part(options.rounds),
        "generate": lambda: generate_part(options.rounds),
        "growth": lambda: growth_part(options.rounds),
        "loss": lambda: loss_part(options.loss_rounds, tuple(options.recipes)),
    }
    chosen = {part: parts[part] for part in options.parts}
    packages = ("transformers", "x-transformers", "ctranslate2")
    save_parts("language", chosen, packages, rounds=options.rounds)


if __name__ == "__main__":
    main()
