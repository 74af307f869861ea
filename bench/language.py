"""Language models beside Hugging Face GPT-2 and x-transformers: steps, generation, time to loss.

    python bench/language.py [--parts train generate growth loss] [--rounds 7] [--threads 1]

Peers get their best settings: fused attention (sdpa, flash), fused AdamW, the same activation, no
dropout, their own caches. Everything is interleaved in one run, and a ratio is the median of the
rounds' ratios. Generation runs in a process a contestant, which take turns: two engines in one
process disturb each other. It wants `pip install '.[bench]'`; what is missing is left out.

- train: milliseconds of a step (forward, backward, AdamW), small and middle shape, and how much of
  the speed of this machine's own matrix product that is.
- generate: 256 tokens, the likeliest each, one text, small shape with room for 320.
- growth: what a token costs at position 1,024 over one at 32, beyond attention itself.
- loss: nanoGPT's CPU recipe and ours, whole trainings in turn; who reaches its loss, and when.

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

from apart import in_turn, serve
from report import ratio, save_parts
from workings.decode.sampling import generate
from workings.models.language import LanguageModel, build_language_model

ROOT = Path(__file__).parents[1]
VOCABULARY = 68
SHAPES = {  # layers, heads, width, window, batch: nanoGPT's
    "small": (4, 4, 128, 64, 12),
    "middle": (6, 6, 384, 256, 8),
}
TOKENS, ROOM = 256, 320


def ours(layers: int, heads: int, width: int, length: int) -> LanguageModel:
    table = {"kind": "transformer", "layers": layers, "heads": heads, "d_model": width}
    return build_language_model(
        {**table, "positions": "learned", "max_positions": length}, VOCABULARY
    )


def hugging_face(layers: int, heads: int, width: int, length: int) -> nn.Module:
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


def present() -> dict[str, Callable[..., nn.Module]]:
    return {name: make for name, (make, package) in PEERS.items() if find_spec(package)}


# -- training steps --------------------------------------------------------------------------------


def scores_of(output: Any) -> Tensor:
    found = output if isinstance(output, Tensor) else getattr(output, "logits", None)
    return output[0] if found is None else found


def stepper(make: Callable[..., nn.Module], shape: tuple[int, ...]) -> Callable[[], None]:
    """Make a training step of a fresh model on random text."""
    layers, heads, width, window, batch = shape
    torch.manual_seed(0)
    model = make(layers, heads, width, window).train()
    optimiser = torch.optim.AdamW(model.parameters(), 1e-3, fused=True)
    ids = torch.randint(VOCABULARY, (batch, window + 1))
    inputs, targets = ids[:, :-1].contiguous(), ids[:, 1:].flatten()

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        scores = scores_of(model(inputs))
        torch.autograd.backward(F.cross_entropy(scores.flatten(0, 1), targets))
        optimiser.step()

    return step


def operations(shape: tuple[int, ...]) -> float:
    """Multiplications and additions of a step: products with weights, and half of attention."""
    layers, _, width, window, batch = shape
    weights = layers * 12 * width**2 + width * VOCABULARY
    attention = layers * width * window  # of queries and keys, and of weights and values: 2 / 2
    return 6.0 * batch * window * (weights + attention)


def peak(seconds: float = 1.0) -> float:
    """Operations a second of a large matrix product."""
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
        steps = {peer: stepper(make, shape) for peer, make in present().items()}
        times: dict[str, list[float]] = {peer: [] for peer in steps}
        best = peak()
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
            best = max(best, peak(0.2))
        row: dict[str, Any] = {"shape": name}
        for peer, found in times.items():
            row[f"{peer} ms"] = round(statistics.median(found), 1)
        for peer in list(times)[1:]:
            row[f"× {peer}"] = round(ratio(times[peer], times["workings"]), 2)
        rate = operations(shape) / (statistics.median(times["workings"]) / 1e3)
        row["of peak"] = round(rate / best, 2)
        rows.append(row)
    return rows


# -- generation ------------------------------------------------------------------------------------


def generator(name: str) -> Callable[[], int]:
    """Make something that writes TOKENS tokens, and says how many it wrote."""
    torch.manual_seed(0)
    layers, heads, width, _, _ = SHAPES["small"]
    prompt = torch.ones(1, 1, dtype=torch.long)
    if name == "workings":
        model = ours(layers, heads, width, ROOM).eval()
        return lambda: sum(1 for _ in generate(model, prompt, TOKENS))
    if name == "workings, CTranslate2":
        from workings.interop.ctranslate2 import GenerationEngine

        engine = GenerationEngine(ours(layers, heads, width, ROOM).eval())
        return lambda: sum(1 for _ in engine.generate(prompt, TOKENS))
    theirs = PEERS[name][0](layers, heads, width, ROOM).eval()
    if name == "Hugging Face":
        how = {"max_new_tokens": TOKENS, "min_new_tokens": TOKENS, "do_sample": False}
        return lambda: theirs.generate(prompt, use_cache=True, **how).shape[1] - 1  # type: ignore[operator]
    from x_transformers import AutoregressiveWrapper

    wrapped = AutoregressiveWrapper(theirs)
    return lambda: wrapped.generate(prompt, TOKENS, temperature=0.0, cache_kv=True).shape[1]


def generate_part(rounds: int) -> list[dict[str, Any]]:
    names = list(present())
    if find_spec("ctranslate2"):
        names.append("workings, CTranslate2")
    times, counts = in_turn({name: [__file__, "--serve", name] for name in names}, rounds)
    assert set(counts.values()) == {TOKENS}, counts
    rows = []
    for name, found in times.items():
        row: dict[str, Any] = {"who": name, "ms": round(statistics.median(found), 1)}
        if "Hugging Face" in times:
            row["× Hugging Face"] = round(ratio(times["Hugging Face"], found), 2)
        rows.append(row)
    return rows


# -- growth ----------------------------------------------------------------------------------------


@torch.inference_mode()
def growth_part(rounds: int) -> list[dict[str, Any]]:
    layers, heads, width, _, _ = SHAPES["small"]
    model = ours(layers, heads, width, 1200).eval()
    places = (32, 1024)
    found: dict[int, list[float]] = {place: [] for place in places}
    alone: dict[int, list[float]] = {place: [] for place in places}
    token = torch.ones(1, dtype=torch.long)
    states = {p: model.start(torch.ones(1, p, dtype=torch.long))[1] for p in places}
    query = torch.randn(1, heads, 1, width // heads)
    read = {p: torch.randn(layers, 2, 1, heads, p, width // heads) for p in places}
    for _ in range(rounds * 8):
        for place in places:
            start = time.perf_counter()
            _, states[place] = model.step(token, states[place])
            found[place].append((time.perf_counter() - start) * 1e6)
            start = time.perf_counter()
            for key, value in read[place]:
                F.scaled_dot_product_attention(query, key, value)
            alone[place].append((time.perf_counter() - start) * 1e6)
    early, late = (statistics.median(found[p]) for p in places)
    own = statistics.median(alone[places[1]]) - statistics.median(alone[places[0]])
    return [
        {
            "µs at 32": round(early),
            "µs at 1,024": round(late),
            "attention's own share": round(own),
            "growth beyond it": round((late - early - own) / early, 3),
        }
    ]


# -- time to loss ----------------------------------------------------------------------------------


def loss_part(rounds: int, recipes: tuple[str, ...]) -> list[dict[str, Any]]:
    """Train each recipe in turn; the seconds are those of training, without measuring."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in recipes}
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
                found[name].append({"seconds": epochs[-1]["seconds"], "epochs": epochs})
    base = found[recipes[0]]
    rows = []
    for name, runs in found.items():
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
        serve(generator(options.serve))
        return
    made = {
        "train": lambda: train_part(options.rounds),
        "generate": lambda: generate_part(options.rounds),
        "growth": lambda: growth_part(options.rounds),
        "loss": lambda: loss_part(options.loss_rounds, tuple(options.recipes)),
    }
    wanted = {part: made[part] for part in options.parts}
    packages = ("transformers", "x-transformers", "ctranslate2")
    save_parts("language", wanted, packages, rounds=options.rounds)


if __name__ == "__main__":
    main()
