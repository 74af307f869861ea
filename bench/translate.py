"""Translators beside JoeyNMT and Hugging Face's Marian: training steps.

    python bench/translate.py [--rounds 7] [--threads 1]

Everyone has 4 + 4 layers, width 128, feed-forward 256, 4 heads, a vocabulary of 9,000 that both
languages and the output share, dropout 0.1, label smoothing 0.1, and fused AdamW. All work on the
same ids, turn by turn; a ratio is the median of the rounds' ratios. What is not installed is left
out: `pip install '.[bench]' joeynmt 'importlib_metadata<8.6'` (JoeyNMT asks for older versions of
packages that others here want newer: give it an environment of its own).

Target tokens a second, on batches of 4,096 tokens, padding among them; to results/translate.json.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from report import environment, ratio, save, show, versions
from workings.models.translators import Sentences, Translator, build_translator

VOCABULARY, WIDTH, HIDDEN, LAYERS, HEADS = 9000, 128, 256, 4, 4
PAD, START, STOP = 0, 1, 3
DROPOUT = SMOOTHING = 0.1
TOKENS, LONGEST = 4096, 20
Step = Callable[[], None]


def batch() -> tuple[Sentences, Tensor]:
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
    return Sentences(*some()), target


def shifted(target: Tensor) -> Tensor:
    """What the decoder reads: everything a place later, behind the start."""
    return torch.cat((torch.full((len(target), 1), START), target[:, :-1]), 1)


def ours() -> Translator:
    table = {"kind": "transformer", "layers": LAYERS, "heads": HEADS, "dropout": DROPOUT}
    return build_translator({**table, "embedding": WIDTH, "hidden": HIDDEN}, VOCABULARY, VOCABULARY)


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


def joey() -> nn.Module:
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    names = ("unk", "pad", "bos", "eos")
    tokens = dict(
        zip((f"{n}_token" for n in names), ("<unk>", "<pad>", "<s>", "</s>"), strict=True)
    )
    numbers = {f"{name}_id": k for k, name in enumerate(names)}
    specials = SimpleNamespace(**tokens, **numbers, sep_token=None, sep_id=None, lang_tags=[])
    words = Vocabulary([f"w{k}" for k in range(4, VOCABULARY)], specials)
    side = {
        "type": "transformer",
        "num_layers": LAYERS,
        "num_heads": HEADS,
        "embeddings": {"embedding_dim": WIDTH, "scale": True},
        "hidden_size": WIDTH,
        "ff_size": HIDDEN,
        "dropout": DROPOUT,
        "layer_norm": "pre",
    }
    table = {"encoder": side, "decoder": side, "tied_embeddings": True, "tied_softmax": True}
    return build_model({**table, "initializer": "xavier_uniform"}, words, words)


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
    (source, target), model = batch(), joey()
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
    names = list(steps)
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            start = time.perf_counter()
            steps[name]()
            times[name].append(time.perf_counter() - start)
    return times


# -- the command -----------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    rows = train_part(options.rounds)
    show("train", rows)
    told = {
        **environment(),
        **versions("transformers", "joeynmt"),
        "rounds": options.rounds,
        "rows": rows,
    }
    save("translate", {"train": told})


if __name__ == "__main__":
    main()
