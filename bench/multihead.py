"""Compare our multi-head layer with torch's: forward and backward, interleaved in one run.

    python bench/multihead.py [--rounds 40] [--threads 1]

torch's layer gets its fast settings: it returns no weights and is causal by its flag, not by a
mask. Of batch-first and time-first inputs, the faster one counts. Writes results/multihead.json.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from report import environment, save, show
from workings.layers import MultiHeadAttention

SIZES = ((12, 64, 128, 4), (8, 256, 384, 6))  # batch, length, width, heads


def make_steps(
    batch: int, length: int, width: int, heads: int, causal: bool
) -> dict[str, Callable[[], None]]:
    """Return a step (forward and backward) of each implementation, with the same weights."""
    torch.manual_seed(0)
    ours = MultiHeadAttention(width, heads)
    theirs = nn.MultiheadAttention(width, heads, batch_first=True)
    time_first = nn.MultiheadAttention(width, heads)
    with torch.no_grad():
        for layer in (theirs, time_first):
            layer.in_proj_weight.copy_(ours.qkv.weight)
            layer.out_proj.weight.copy_(ours.output.weight)
    x = torch.randn(batch, length, width, requires_grad=True)
    x_time_first = x.detach().transpose(0, 1).contiguous().requires_grad_()
    gradient = torch.randn(batch, length, width)
    mask = nn.Transformer.generate_square_subsequent_mask(length) if causal else None

    def reference(layer: nn.MultiheadAttention, x: Tensor) -> Tensor:
        mixed, _ = layer(x, x, x, attn_mask=mask, is_causal=causal, need_weights=False)
        return mixed

    expected, *others = (
        ours(x, causal=causal),
        reference(theirs, x),
        reference(time_first, x_time_first).transpose(0, 1),
    )
    for other in others:
        torch.testing.assert_close(expected, other)
    gradient_time_first = gradient.transpose(0, 1).contiguous()
    return {
        "workings": lambda: ours(x, causal=causal).backward(gradient),
        "torch": lambda: reference(theirs, x).backward(gradient),
        "torch, time first": lambda: reference(time_first, x_time_first).backward(
            gradient_time_first
        ),
    }


def measure(steps: dict[str, Callable[[], None]], rounds: int) -> dict[str, list[float]]:
    """Return the milliseconds per step of each implementation in every round."""
    names = list(steps)
    for name in names:
        steps[name]()
    start = time.perf_counter()
    steps[names[0]]()
    repeat = max(1, round(0.05 / (time.perf_counter() - start)))  # about 50 ms per turn
    times: dict[str, list[float]] = {name: [] for name in names}
    for i in range(rounds):
        for name in names[i % len(names) :] + names[: i % len(names)]:
            start = time.perf_counter()
            for _ in range(repeat):
                steps[name]()
            times[name].append((time.perf_counter() - start) / repeat * 1e3)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = []
    for batch, length, width, heads in SIZES:
        for causal in (False, True):
            times = measure(make_steps(batch, length, width, heads, causal), options.rounds)
            median = {name: statistics.median(t) for name, t in times.items()}
            fastest = min(("torch", "torch, time first"), key=median.__getitem__)
            ratios = [a / b for a, b in zip(times[fastest], times["workings"], strict=True)]
            rows.append(
                {
                    "batch": batch,
                    "length": length,
                    "width": width,
                    "heads": heads,
                    "causal": causal,
                    **{f"{name} ms": round(ms, 3) for name, ms in median.items()},
                    "ratio": round(statistics.median(ratios), 3),
                }
            )
    title = "Multi-head attention, forward + backward; ratio: the faster of torch's over ours"
    show(title, rows)
    save("multihead", {**environment(), "rounds": options.rounds, "rows": rows})


if __name__ == "__main__":
    main()
