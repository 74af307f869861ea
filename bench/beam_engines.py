"""Beam search of several implementations with the weights of one run: ids in, ids out."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from torch import Tensor, nn

from report import explain_import_error
from workings.data.batching import pad
from workings.decode import beam_search
from workings.interop.ctranslate2 import AcceleratedBeamSearch
from workings.interop.marian import write_translator
from workings.layers.transformer import LayerNorm
from workings.models.translation import PAD, START, SentenceBatch, Translator
from workings.tasks.translation import Translation
from workings.training.runs import load

Ids = Sequence[int]
Search = Callable[[SentenceBatch], list[list[int]]]
BEAMS, UNKNOWN, STOP = 5, 2, 3
# The number of sentences with which each implementation is fastest.
BATCH_SIZES = {"workings": 64, "workings, CTranslate2": 64, "Hugging Face": 16, "JoeyNMT": 32}


def sources(task: Translation, count: int) -> list[list[int]]:
    """Return the first `count` sources of the test set."""
    return [task.tokenizers.encode_source(pair.source) for pair in task.load_test_pairs()[:count]]


def make_searcher(name: str, run: Path, count: int) -> Callable[[], list[list[int]]]:
    """Return a function that translates a run's test set."""
    task = load(run, Translation)
    inputs = sources(task, count)
    max_length = 2 * max(map(len, inputs)) + 10
    search = SEARCHES[name](task.model, run, max_length)
    order = sorted(range(len(inputs)), key=lambda k: len(inputs[k]))

    def translate() -> list[list[int]]:
        outputs: dict[int, list[int]] = {}
        for begin in range(0, len(order), BATCH_SIZES[name]):
            batch = order[begin : begin + BATCH_SIZES[name]]
            ids, lengths = pad([inputs[k] for k in batch])
            outputs |= dict(zip(batch, search(SentenceBatch(ids, lengths)), strict=True))
        return [outputs[k] for k in range(len(inputs))]

    return translate


def ours(model: Translator, _: Path, max_length: int) -> Search:
    def search(source: SentenceBatch) -> list[list[int]]:
        hypotheses = beam_search(
            model, source, stop=STOP, max_length=max_length, beams=BEAMS, num_best=1
        )
        return [list(best[0].tokens) for best in hypotheses]

    return search


def by_ctranslate2(model: Translator, _: Path, max_length: int) -> Search:
    fast = AcceleratedBeamSearch(model)

    def search(source: SentenceBatch) -> list[list[int]]:
        hypotheses = fast(source, stop=STOP, max_length=max_length, beams=BEAMS, length_penalty=0.0)
        return [list(best[0].tokens) for best in hypotheses]

    return search


def hugging_face(model: Translator, run: Path, max_length: int) -> Search:
    with explain_import_error():
        from transformers import MarianMTModel

    folder = run / "marian"
    folder.mkdir(exist_ok=True)
    write_translator(model, folder)
    theirs = MarianMTModel.from_pretrained(folder, attn_implementation="sdpa").eval()
    settings: dict[str, Any] = {
        "num_beams": BEAMS,
        "do_sample": False,
        "early_stopping": "never",
        "length_penalty": 0.0,
        "max_new_tokens": max_length,
        "forced_eos_token_id": None,
    }

    def search(source: SentenceBatch) -> list[list[int]]:
        mask = (source.ids != PAD).long()
        output = theirs.generate(input_ids=source.ids, attention_mask=mask, **settings)
        return [until_stop(row[1:]) for row in output.tolist()]

    return search


def until_stop(ids: Ids) -> list[int]:
    return [int(k) for k in (ids[: ids.index(STOP)] if STOP in ids else ids)]


# -- JoeyNMT ---------------------------------------------------------------------------------------


def joey_model(
    vocabulary: int, layers: int, heads: int, width: int, hidden: int, **options: Any
) -> Any:
    """Return a JoeyNMT translator with one shared embedding; `options`: dropout, layer_norm."""
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    names = ("unk", "pad", "bos", "eos")
    tokens = {f"{n}_token": token for n, token in zip(names, _SPECIAL_TOKENS, strict=True)}
    numbers = {f"{name}_id": k for k, name in enumerate(names)}
    specials = SimpleNamespace(**tokens, **numbers, sep_token=None, sep_id=None, lang_tags=[])
    words = Vocabulary([f"w{k}" for k in range(4, vocabulary)], specials)
    settings = {
        "type": "transformer",
        "num_layers": layers,
        "num_heads": heads,
        "embeddings": {"embedding_dim": width, "scale": True},
        "hidden_size": width,
        "ff_size": hidden,
        **options,
    }
    table = {
        "encoder": settings,
        "decoder": settings,
        "tied_embeddings": True,
        "tied_softmax": True,
    }
    return build_model({**table, "initializer": "xavier_uniform"}, words, words)


_SPECIAL_TOKENS = ("<unk>", "<pad>", "<s>", "</s>")


# Patterns of our parameter names, and JoeyNMT's names, applied in this order.
_RENAMED = (
    (r"^(encoder|decoder)\.(\d)", r"\1.layers.\2"),
    (r"feed_forward_residual\.norm", "feed_forward.layer_norm"),
    (r"cross_attention_residual\.norm", "dec_layer_norm"),
    (r"^(encoder.*\.)attention_residual\.norm", r"\1layer_norm"),
    (r"^(decoder.*\.)attention_residual\.norm", r"\1x_layer_norm"),
    (r"^(encoder.*\.)attention\.", r"\1src_src_att."),
    (r"^(decoder.*\.)attention\.", r"\1trg_trg_att."),
    (r"cross_attention\.", "src_trg_att."),
    (r"att\.output", "att.output_layer"),
    (r"feed_forward\.inner", "feed_forward.pwff_layer.0"),
    (r"feed_forward\.outer", "feed_forward.pwff_layer.3"),
    (r"gamma$", "weight"),
    (r"beta$", "bias"),
)


def joey_weights(model: Translator) -> dict[str, Tensor]:
    """Return our weights by JoeyNMT's names; it has separate matrices for query, key and value."""
    shared = model.target_embedding.weight
    weights = dict.fromkeys(
        ("src_embed.lut.weight", "trg_embed.lut.weight", "decoder.output_layer.weight"), shared
    )
    for our_name, weight in model.state_dict().items():
        name = our_name
        for pattern, theirs in _RENAMED:
            name = re.sub(pattern, theirs, name)
        if "att.qkv" in name:
            for which, part in zip("qkv", weight.chunk(3), strict=True):
                weights[name.replace("qkv", f"{which}_layer")] = part
        elif "att" in name or "norm" in name or "pwff" in name:
            weights[name] = weight
    return weights


def joey(model: Translator, _: Path, max_length: int) -> Search:
    from joeynmt.search import beam_search as their_search

    block = model.encoder[0]
    theirs = joey_model(
        len(model.target_embedding.weight),
        len(model.encoder),
        block.attention.heads,
        model.target_embedding.embedding_dim,
        block.feed_forward.inner.out_features,
        layer_norm="post",
    ).eval()
    positions = {name: buffer for name, buffer in theirs.state_dict().items() if ".pe." in name}
    theirs.load_state_dict(joey_weights(model) | positions)
    theirs.pad_index, theirs.bos_index, theirs.unk_index = PAD, START, UNKNOWN
    eps = next(m.eps for m in model.modules() if isinstance(m, LayerNorm))
    for module in theirs.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = eps

    def search(source: SentenceBatch) -> list[list[int]]:
        mask = (source.ids != PAD).unsqueeze(1)
        arguments = {"src": source.ids, "src_length": source.lengths, "src_mask": mask}
        states, _, _, _ = theirs(return_type="encode", **arguments)
        # It decodes up to the maximum while a beam is unfinished: use its own default.
        limit = min(max_length, int(1.5 * source.ids.shape[1]))
        output, _, _ = their_search(
            theirs, BEAMS, states, None, mask, limit, alpha=0.0, min_output_length=0
        )
        return [until_stop(row) for row in output.tolist()]

    return search


SEARCHES: dict[str, Callable[[Translator, Path, int], Search]] = {
    "workings": ours,
    "workings, CTranslate2": by_ctranslate2,
    "Hugging Face": hugging_face,
    "JoeyNMT": joey,
}
