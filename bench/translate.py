"""Translators beside JoeyNMT and Hugging Face's Marian: training steps, and beam search.

    python bench/translate.py [--parts train decode] [--rounds 7] [--threads 1]
    python bench/translate.py --parts decode --run RUN --sentences 300

What is not installed is left out: `pip install '.[bench,fast]' joeynmt 'importlib_metadata<8.6'`
(JoeyNMT asks for older versions of packages that others here want newer: give it an environment of
its own). Contestants take turns; a ratio is the median of the rounds' ratios.

- train: target tokens a second, on batches of 4,096 tokens, padding among them. Everyone has 4 + 4
  layers, width 128, feed-forward 256, 4 heads, a vocabulary of 9,000 that both languages and the
  output share, dropout 0.1, label smoothing 0.1, and fused AdamW, and the same ids.
- decode: sentences of Multi30k's test_2016 a second, the best of 5 beams, ids in and ids out, by
  one model of that shape, with its norms after the layers as Marian has them; a process each. It is
  trained for an epoch and kept in --run, if it is not there. Everyone has the batches that suit it
  best, of sentences of like length (`searching.AT_ONCE`). Hugging Face searches to the same end as
  ours (`early_stopping` "never"), without a length penalty, since its own divides by another
  number: both must find the same. JoeyNMT stops by its own rule, and finds the same less often.

Writes results/translate.json, part by part.
"""

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from apart import clock, in_turn, serve
from report import ratio, save_parts
from searching import AT_ONCE, SEARCHES, joey_model, searcher, sources
from workings.models.translation import SentenceBatch, Translator, build_translator
from workings.tasks.translation import Translation
from workings.training.runs import load_as

VOCABULARY, WIDTH, HIDDEN, LAYERS, HEADS = 9000, 128, 256, 4, 4
PAD, START, STOP = 0, 1, 3
DROPOUT = SMOOTHING = 0.1
TOKENS, LONGEST = 4096, 20
Step = Callable[[], None]
ROOT = Path(__file__).parents[1]


def batch() -> tuple[SentenceBatch, Tensor]:
    """Sources and targets of 14 to 20 tokens, the targets with their stop."""
    draw = torch.Generator().manual_seed(0)
    rows = TOKENS // LONGEST

    def some() -> tuple[Tensor, Tensor]:
        lengths = torch.randint(14, LONGEST + 1, (rows,), generator=draw)
        ids = torch.randint(4, VOCABULARY, (rows, LONGEST), generator=draw)
        ids.masked_fill_(torch.arange(LONGEST) >= lengths.unsqueeze(1), PAD)
        ids[torch.arange(rows), lengths - 1] = STOP
        return ids, lengths

    target, _ = some()
    return SentenceBatch(*some()), target


def shifted(target: Tensor) -> Tensor:
    """What the decoder reads: everything a place later, behind the start."""
    return torch.cat((torch.full((len(target), 1), START), target[:, :-1]), 1)


def ours() -> Translator:
    table = {"kind": "transformer", "layers": LAYERS, "heads": HEADS, "dropout": DROPOUT}
    return build_translator({**table, "d_model": WIDTH, "d_ff": HIDDEN}, VOCABULARY, VOCABULARY)


def marian(positions: int = 512) -> nn.Module:
    from transformers import MarianConfig, MarianMTModel

    sides = {}
    for side in ("encoder", "decoder"):
        sides |= {f"{side}_layers": LAYERS, f"{side}_attention_heads": HEADS}
        sides |= {f"{side}_ffn_dim": HIDDEN, f"{side}_layerdrop": 0.0}
    config = MarianConfig(
        vocab_size=VOCABULARY,
        d_model=WIDTH,
        max_position_embeddings=positions,
        activation_function="relu",
        dropout=DROPOUT,
        attention_dropout=0.0,
        scale_embedding=True,
        pad_token_id=PAD,
        eos_token_id=STOP,
        bos_token_id=START,
        decoder_start_token_id=START,
        forced_eos_token_id=None,
        attn_implementation="sdpa",
        **sides,
    )
    return MarianMTModel(config)


# -- training steps --------------------------------------------------------------------------------


def stepping(model: nn.Module, loss: Callable[[], Tensor]) -> Step:
    model.train()
    optimiser = torch.optim.AdamW(model.parameters(), 1e-3, fused=True)

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(loss())
        optimiser.step()

    return step


def our_step() -> Step:
    (source, target), model = batch(), ours()
    count = int((target != PAD).sum())
    return stepping(model, lambda: model(source, shifted(target), target, SMOOTHING) / count)


def marian_step() -> Step:
    (source, target), model = batch(), marian()
    mask = (source.ids != PAD).long()

    def loss() -> Tensor:
        scores = model(
            input_ids=source.ids, attention_mask=mask, decoder_input_ids=shifted(target)
        ).logits
        return F.cross_entropy(
            scores.flatten(0, 1), target.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING
        )

    return stepping(model, loss)


def joey_step() -> Step:
    (source, target) = batch()
    shape = (VOCABULARY, LAYERS, HEADS, WIDTH, HIDDEN)
    model = joey_model(*shape, dropout=DROPOUT, layer_norm="pre")
    pad = 1  # its own
    ids, right = source.ids.clone(), target.clone()
    read = shifted(target)
    for some in (ids, right, read):
        some[some == PAD] = pad
    model.loss_function = ("crossentropy", SMOOTHING)
    count = int((target != PAD).sum())
    given = {
        "src": ids,
        "trg_input": read,
        "trg": right,
        "src_mask": (ids != pad).unsqueeze(1),
        "src_length": source.lengths,
        "trg_mask": (read != pad).unsqueeze(1),
    }
    return stepping(model, lambda: model(return_type="loss", **given)[0] / count)


TRAINING = {
    "workings": (our_step, "workings"),
    "Hugging Face Marian": (marian_step, "transformers"),
    "JoeyNMT": (joey_step, "joeynmt"),
}


def train_part(rounds: int) -> list[dict[str, Any]]:
    steps = {name: make() for name, (make, package) in TRAINING.items() if find_spec(package)}
    tokens = int((batch()[1] != PAD).sum())
    times = timed(steps, rounds)
    return [
        {
            "who": name,
            "tokens/s": round(tokens / statistics.median(found)),
            "workings ×": round(ratio(found, times["workings"]), 2),
        }
        for name, found in times.items()
    ]


def timed(steps: dict[str, Step], rounds: int) -> dict[str, list[float]]:
    """Take turns, each round beginning with another."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        step()  # warm
    names, now = list(steps), clock()
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            start = now()
            steps[name]()
            times[name].append(now() - start)
    return times


# -- beam search -----------------------------------------------------------------------------------

PACKAGES = {
    "workings": "torch",
    "workings, CTranslate2": "ctranslate2",
    "Hugging Face": "transformers",
    "JoeyNMT": "joeynmt",
}
SHAPE = [
    "--tokenizer.vocab_size",
    str(VOCABULARY),
    "--model.norm",
    "post",
    "--model.dropout",
    "0.1",
]
SHAPE += ["--model.d_ff", str(HIDDEN), "--tokenizer.dropout", "0"]
BRIEFLY = ["--train.epochs", "1", "--train.batch_size", "1024", "--train.average", "none"]
TIE = 1e-3  # nats, below which rounding decides


def trained(run: Path) -> None:
    """Train the model that all search with, if nobody has."""
    if not (run / "result.json").exists():
        recipe = ROOT / "recipes" / "multi30k-en-de-transformer.toml"
        command = [sys.executable, "-m", "workings", "train", str(recipe), "--out", str(run)]
        subprocess.run([*command, *SHAPE, *BRIEFLY, "--threads", "1"], check=True)


def decode_part(rounds: int, run: Path, count: int) -> list[dict[str, Any]]:
    trained(run)
    given = ["--run", str(run), "--sentences", str(count)]
    commands = {
        name: [__file__, *given, "--serve", name] for name in SEARCHES if find_spec(PACKAGES[name])
    }
    times, found = in_turn(commands, rounds)
    task = load_as(Translation, run)
    some = sources(task, count)
    rows = []
    for name, taken in times.items():
        same = [a == b for a, b in zip(found[name], found["workings"], strict=True)]
        row: dict[str, Any] = {
            "who": name,
            "sentences": len(some),
            "sentences/s": round(len(some) / statistics.median(taken) * 1e3, 1),
            "at once": AT_ONCE[name],
            "tokens": sum(map(len, found[name])),
            "as ours": round(sum(same) / len(same), 4),
        }
        for peer in ("Hugging Face", "JoeyNMT"):
            if peer in times:
                row[f"× {peer}"] = round(ratio(times[peer], taken), 2)
        rows.append(row)
        if name != "JoeyNMT":  # which stops by its own rule
            both = zip(some, found[name], found["workings"], strict=True)
            for source, theirs, right in both:
                assert theirs == right or is_tie(task.model, source, theirs, right), (name, source)
    return rows


@torch.inference_mode()
def is_tie(model: Translator, source: list[int], *translations: list[int]) -> bool:
    """Whether translations are so equally likely that rounding decides between them."""
    ids = SentenceBatch(torch.tensor([source]), torch.tensor([len(source)]))
    logs = []
    for text in translations:
        wanted = torch.tensor([[*text, STOP]])
        chances = torch.log_softmax(model(ids, shifted(wanted)), -1)
        logs.append(float(chances.gather(-1, wanted.unsqueeze(-1)).sum()))
    return max(logs) - min(logs) < TIE


# -- the command -----------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--parts", nargs="+", default=["train", "decode"], metavar="PART")
    parser.add_argument("--run", type=Path, default=ROOT / "runs" / "bench-translate")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]) if options.serve else options.threads)
    torch.manual_seed(0)
    if options.serve:
        serve(searcher(options.serve, options.run, options.sentences))
        return
    made = {
        "train": lambda: train_part(options.rounds),
        "decode": lambda: decode_part(options.rounds, options.run, options.sentences),
    }
    wanted = {part: made[part] for part in options.parts}
    packages = ("transformers", "joeynmt", "ctranslate2")
    save_parts("translate", wanted, packages, rounds=options.rounds)


if __name__ == "__main__":
    main()
