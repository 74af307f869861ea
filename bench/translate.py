"""Compare translators with JoeyNMT and Hugging Face's Marian: training steps and beam search.

    python bench/translate.py [--parts train decode] [--rounds 7] [--threads 1]
    python bench/translate.py --parts decode --run RUN --sentences 300

Packages that are not installed are skipped: `pip install '.[bench,fast]' joeynmt
'importlib_metadata<8.6'` (JoeyNMT needs older versions of some packages: use a separate
environment). Implementations take turns; a ratio is the median of the rounds' ratios.

- train: target tokens per second on batches of 4,096 tokens, padding included. All have 4 + 4
  layers, width 128, feed-forward 256, 4 heads, one vocabulary of 9,000 shared by both languages and
  the output, dropout 0.1, label smoothing 0.1, fused AdamW, and the same ids.
- decode: sentences of Multi30k's test_2016 per second, 5 beams, ids in and ids out, with one model
  of that shape and post-norm blocks as in Marian; each in its own process. The model is trained for
  an epoch and kept in --run. Each implementation gets the batch size with which it is fastest
  (`beam_engines.BATCH_SIZES`), of sentences of similar length. Hugging Face searches as long as
  ours (`early_stopping` "never") and without a length penalty, since its penalty differs: both must
  find the same. JoeyNMT has its own stopping rule and finds the same less often.

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

from beam_engines import BATCH_SIZES, SEARCHES, joey_model, make_searcher, sources
from processes import clock, run_in_turn, serve
from report import ratio, save_parts
from workings.models.translation import SentenceBatch, Translator, build_translator
from workings.tasks.translation import Translation
from workings.training.runs import load

VOCABULARY, WIDTH, HIDDEN, LAYERS, HEADS = 9000, 128, 256, 4, 4
PAD, START, STOP = 0, 1, 3
DROPOUT = SMOOTHING = 0.1
TOKENS, MAX_LENGTH = 4096, 20
Step = Callable[[], None]
ROOT = Path(__file__).parents[1]


def batch() -> tuple[SentenceBatch, Tensor]:
    """Return sources and targets of 14 to 20 tokens, the targets with their stop token."""
    generator = torch.Generator().manual_seed(0)
    rows = TOKENS // MAX_LENGTH

    def sentences() -> tuple[Tensor, Tensor]:
        lengths = torch.randint(14, MAX_LENGTH + 1, (rows,), generator=generator)
        ids = torch.randint(4, VOCABULARY, (rows, MAX_LENGTH), generator=generator)
        ids.masked_fill_(torch.arange(MAX_LENGTH) >= lengths.unsqueeze(1), PAD)
        ids[torch.arange(rows), lengths - 1] = STOP
        return ids, lengths

    target, _ = sentences()
    return SentenceBatch(*sentences()), target


def shift_right(target: Tensor) -> Tensor:
    """Return the decoder's input: the target after a start token, without its last token."""
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


def make_step(model: nn.Module, loss: Callable[[], Tensor]) -> Step:
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=True)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss())
        optimizer.step()

    return step


def our_step() -> Step:
    (source, target), model = batch(), ours()
    count = int((target != PAD).sum())
    return make_step(model, lambda: model(source, shift_right(target), target, SMOOTHING) / count)


def marian_step() -> Step:
    (source, target), model = batch(), marian()
    mask = (source.ids != PAD).long()

    def loss() -> Tensor:
        logits = model(
            input_ids=source.ids, attention_mask=mask, decoder_input_ids=shift_right(target)
        ).logits
        return F.cross_entropy(
            logits.flatten(0, 1), target.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING
        )

    return make_step(model, loss)


def joey_step() -> Step:
    (source, target) = batch()
    shape = (VOCABULARY, LAYERS, HEADS, WIDTH, HIDDEN)
    model = joey_model(*shape, dropout=DROPOUT, layer_norm="pre")
    pad = 1  # JoeyNMT's id of padding
    ids, labels = source.ids.clone(), target.clone()
    inputs = shift_right(target)
    for tensor in (ids, labels, inputs):
        tensor[tensor == PAD] = pad
    model.loss_function = ("crossentropy", SMOOTHING)
    count = int((target != PAD).sum())
    arguments = {
        "src": ids,
        "trg_input": inputs,
        "trg": labels,
        "src_mask": (ids != pad).unsqueeze(1),
        "src_length": source.lengths,
        "trg_mask": (inputs != pad).unsqueeze(1),
    }
    return make_step(model, lambda: model(return_type="loss", **arguments)[0] / count)


TRAINING = {
    "workings": (our_step, "workings"),
    "Hugging Face Marian": (marian_step, "transformers"),
    "JoeyNMT": (joey_step, "joeynmt"),
}


def train_part(rounds: int) -> list[dict[str, Any]]:
    steps = {name: make() for name, (make, package) in TRAINING.items() if find_spec(package)}
    tokens = int((batch()[1] != PAD).sum())
    times = time_steps(steps, rounds)
    return [
        {
            "who": name,
            "tokens/s": round(tokens / statistics.median(measured)),
            "workings ×": round(ratio(measured, times["workings"]), 2),
        }
        for name, measured in times.items()
    ]


def time_steps(steps: dict[str, Step], rounds: int) -> dict[str, list[float]]:
    """Return the times of all steps; each round starts with a different one."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        step()  # warm up
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
SHORT_TRAINING = ["--train.epochs", "1", "--train.batch_size", "1024", "--train.average", "none"]
TIE = 1e-3  # nats: smaller differences are rounding errors


def ensure_trained(run: Path) -> None:
    """Train the model for all implementations, unless the run exists."""
    if not (run / "result.json").exists():
        recipe = ROOT / "recipes" / "multi30k-en-de-transformer.toml"
        command = [sys.executable, "-m", "workings", "train", str(recipe), "--out", str(run)]
        subprocess.run([*command, *SHAPE, *SHORT_TRAINING, "--threads", "1"], check=True)


def decode_part(rounds: int, run: Path, count: int) -> list[dict[str, Any]]:
    ensure_trained(run)
    arguments = ["--run", str(run), "--sentences", str(count)]
    commands = {
        name: [__file__, *arguments, "--serve", name]
        for name in SEARCHES
        if find_spec(PACKAGES[name])
    }
    times, outputs = run_in_turn(commands, rounds)
    task = load(run, Translation)
    inputs = sources(task, count)
    rows = []
    for name, measured in times.items():
        same = [a == b for a, b in zip(outputs[name], outputs["workings"], strict=True)]
        row: dict[str, Any] = {
            "who": name,
            "sentences": len(inputs),
            "sentences/s": round(len(inputs) / statistics.median(measured) * 1e3, 1),
            "at once": BATCH_SIZES[name],
            "tokens": sum(map(len, outputs[name])),
            "as ours": round(sum(same) / len(same), 4),
        }
        for peer in ("Hugging Face", "JoeyNMT"):
            if peer in times:
                row[f"× {peer}"] = round(ratio(times[peer], measured), 2)
        rows.append(row)
        if name != "JoeyNMT":  # it has its own stopping rule
            both = zip(inputs, outputs[name], outputs["workings"], strict=True)
            for source, theirs, ours_ in both:
                assert theirs == ours_ or is_tie(task.model, source, theirs, ours_), (name, source)
    return rows


@torch.inference_mode()
def is_tie(model: Translator, source: list[int], *translations: list[int]) -> bool:
    """Return True if the log probabilities of translations differ by rounding errors only."""
    ids = SentenceBatch(torch.tensor([source]), torch.tensor([len(source)]))
    logs = []
    for text in translations:
        target = torch.tensor([[*text, STOP]])
        log_probabilities = torch.log_softmax(model(ids, shift_right(target)), -1)
        logs.append(float(log_probabilities.gather(-1, target.unsqueeze(-1)).sum()))
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
        serve(make_searcher(options.serve, options.run, options.sentences))
        return
    parts = {
        "train": lambda: train_part(options.rounds),
        "decode": lambda: decode_part(options.rounds, options.run, options.sentences),
    }
    chosen = {part: parts[part] for part in options.parts}
    packages = ("transformers", "joeynmt", "ctranslate2")
    save_parts("translate", chosen, packages, rounds=options.rounds)


if __name__ == "__main__":
    main()
