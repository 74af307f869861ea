"""Who searches for translations, all with the weights of one run: ids in, ids out."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from torch import Tensor, nn

from workings.data.batching import pad
from workings.decode.beam import beam_search
from workings.interop.ctranslate2 import AcceleratedBeamSearch
from workings.interop.marian import write_marian
from workings.layers.transformer import LayerNorm
from workings.models.translation import PAD, START, SentenceBatch, Translator
from workings.tasks.translation import Translation
from workings.training.runs import load_as

Ids = Sequence[int]
Search = Callable[[SentenceBatch], list[list[int]]]
BEAMS, UNKNOWN, STOP = 5, 2, 3
# Sentences in a batch, of like length: with which each was fastest.
AT_ONCE = {"workings": 64, "workings, CTranslate2": 64, "Hugging Face": 16, "JoeyNMT": 32}


def sources(task: Translation, count: int) -> list[list[int]]:
    """The first so many sources of the test part."""
    return [task.tokenizers.encode_source(pair.source) for pair in task.load_test_pairs()[:count]]


def searcher(name: str, run: Path, count: int) -> Callable[[], list[list[int]]]:
    """Make something that translates a run's test part."""
    task = load_as(Translation, run)
    some = sources(task, count)
    longest = 2 * max(map(len, some)) + 10
    search = SEARCHES[name](task.model, run, longest)
    order = sorted(range(len(some)), key=lambda k: len(some[k]))

    def translated() -> list[list[int]]:
        found: dict[int, list[int]] = {}
        for begin in range(0, len(order), AT_ONCE[name]):
            batch = order[begin : begin + AT_ONCE[name]]
            ids, lengths = pad([some[k] for k in batch])
            found |= dict(zip(batch, search(SentenceBatch(ids, lengths)), strict=True))
        return [found[k] for k in range(len(some))]

    return translated


def ours(model: Translator, _: Path, longest: int) -> Search:
    def search(source: SentenceBatch) -> list[list[int]]:
        found = beam_search(model, source, stop=STOP, max_length=longest, beams=BEAMS, num_best=1)
        return [list(some[0].tokens) for some in found]

    return search


def by_ctranslate2(model: Translator, _: Path, longest: int) -> Search:
    fast = AcceleratedBeamSearch(model)

    def search(source: SentenceBatch) -> list[list[int]]:
        found = fast(source, stop=STOP, max_length=longest, beams=BEAMS, length_penalty=0.0)
        return [list(some[0].tokens) for some in found]

    return search


def hugging_face(model: Translator, run: Path, longest: int) -> Search:
    from transformers import MarianMTModel

    folder = run / "marian"
    folder.mkdir(exist_ok=True)
    write_marian(model, folder)
    theirs = MarianMTModel.from_pretrained(folder, attn_implementation="sdpa").eval()
    how: dict[str, Any] = {
        "num_beams": BEAMS,
        "do_sample": False,
        "early_stopping": "never",
        "length_penalty": 0.0,
        "max_new_tokens": longest,
        "forced_eos_token_id": None,
    }

    def search(source: SentenceBatch) -> list[list[int]]:
        mask = (source.ids != PAD).long()
        found = theirs.generate(input_ids=source.ids, attention_mask=mask, **how)
        return [until_stop(row[1:]) for row in found.tolist()]

    return search


def until_stop(ids: Ids) -> list[int]:
    return [int(k) for k in (ids[: ids.index(STOP)] if STOP in ids else ids)]


# -- JoeyNMT ---------------------------------------------------------------------------------------


def joey_model(
    vocabulary: int, layers: int, heads: int, width: int, hidden: int, **how: Any
) -> Any:
    """A translator of JoeyNMT's, one embedding for all; `how`: dropout, place of the norms."""
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    names = ("unk", "pad", "bos", "eos")
    tokens = {f"{n}_token": mark for n, mark in zip(names, _MARKS, strict=True)}
    numbers = {f"{name}_id": k for k, name in enumerate(names)}
    specials = SimpleNamespace(**tokens, **numbers, sep_token=None, sep_id=None, lang_tags=[])
    words = Vocabulary([f"w{k}" for k in range(4, vocabulary)], specials)
    side = {
        "type": "transformer",
        "num_layers": layers,
        "num_heads": heads,
        "embeddings": {"embedding_dim": width, "scale": True},
        "hidden_size": width,
        "ff_size": hidden,
        **how,
    }
    table = {"encoder": side, "decoder": side, "tied_embeddings": True, "tied_softmax": True}
    return build_model({**table, "initializer": "xavier_uniform"}, words, words)


_MARKS = ("<unk>", "<pad>", "<s>", "</s>")


# Our names, and theirs.
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
    """Our weights by JoeyNMT's names: queries, keys and values have a matrix each there."""
    shared = model.target_embedding.weight
    found = dict.fromkeys(
        ("src_embed.lut.weight", "trg_embed.lut.weight", "decoder.output_layer.weight"), shared
    )
    for ours_, weight in model.state_dict().items():
        name = ours_
        for pattern, theirs in _RENAMED:
            name = re.sub(pattern, theirs, name)
        if "att.qkv" in name:
            for which, part in zip("qkv", weight.chunk(3), strict=True):
                found[name.replace("qkv", f"{which}_layer")] = part
        elif "att" in name or "norm" in name or "pwff" in name:
            found[name] = weight
    return found


def joey(model: Translator, _: Path, longest: int) -> Search:
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
        given = {"src": source.ids, "src_length": source.lengths, "src_mask": mask}
        states, _, _, _ = theirs(return_type="encode", **given)
        # It would go on to the longest as long as one of its beams has not stopped: as short a one
        # as its own search takes.
        most = min(longest, int(1.5 * source.ids.shape[1]))
        found, _, _ = their_search(
            theirs, BEAMS, states, None, mask, most, alpha=0.0, min_output_length=0
        )
        return [until_stop(row) for row in found.tolist()]

    return search


SEARCHES: dict[str, Callable[[Translator, Path, int], Search]] = {
    "workings": ours,
    "workings, CTranslate2": by_ctranslate2,
    "Hugging Face": hugging_face,
    "JoeyNMT": joey,
}
