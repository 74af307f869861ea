"""BERT and DistilBERT classifiers in Hugging Face's format, read and written."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from workings.errors import UserError, safe_repr
from workings.interop.huggingface import (
    CONFIG_FILE,
    WEIGHTS_FILE,
    activation_name,
    check_number,
    check_settings,
    check_size,
    read_activation,
    write_json,
)
from workings.interop.tensor_maps import (
    TensorMapping,
    join_tensors,
    map_linear,
    map_norm,
    map_qkv,
    map_tensor,
    split_tensors,
)
from workings.interop.weights import find_weights_file, read_weights
from workings.layers.transformer import EncoderBlock
from workings.models.classifier_base import TextClassifier
from workings.models.classifiers import BertClassifier, build_classifier
from workings.modules import meta_device
from workings.storage import export_tensors

NOT_BERT = 'BERT and DistilBERT are models of their own kind: expected model.kind = "bert"'
# Other values would be another function.
_REQUIRED_SETTINGS = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}


@dataclass(frozen=True)
class BertLayout:
    """The names that a BERT or a DistilBERT has for the same things."""

    model_type: str
    architecture: str
    sizes: Mapping[str, tuple[str, int]]
    """key and default of each size, by our name"""
    activation_key: str
    pooler: str
    """activation of the first token's layer"""
    pooler_name: str
    block: str
    """prefix of a block's tensors"""
    qkv: tuple[str, str, str]
    parts: Mapping[str, str]
    """the other layers of a block, by our name"""

    @property
    def prefix(self) -> str:
        """The beginning of the names of all tensors but the classifier's."""
        return f"{self.model_type}."


BERT = BertLayout(
    "bert",
    "BertForSequenceClassification",
    {
        "vocab_size": ("vocab_size", 30522),
        "d_model": ("hidden_size", 768),
        "layers": ("num_hidden_layers", 12),
        "heads": ("num_attention_heads", 12),
        "d_ff": ("intermediate_size", 3072),
        "max_positions": ("max_position_embeddings", 512),
        "token_types": ("type_vocab_size", 2),
    },
    "hidden_act",
    "tanh",
    "bert.pooler.dense",
    "bert.encoder.layer",
    ("attention.self.query", "attention.self.key", "attention.self.value"),
    {
        "attention.output": "attention.output.dense",
        "attention_residual.norm": "attention.output.LayerNorm",
        "feed_forward.inner": "intermediate.dense",
        "feed_forward.outer": "output.dense",
        "feed_forward_residual.norm": "output.LayerNorm",
    },
)
DISTILBERT = BertLayout(
    "distilbert",
    "DistilBertForSequenceClassification",
    {
        "vocab_size": ("vocab_size", 30522),
        "d_model": ("dim", 768),
        "layers": ("n_layers", 6),
        "heads": ("n_heads", 12),
        "d_ff": ("hidden_dim", 3072),
        "max_positions": ("max_position_embeddings", 512),
    },
    "activation",
    "relu",
    "pre_classifier",
    "distilbert.transformer.layer",
    ("attention.q_lin", "attention.k_lin", "attention.v_lin"),
    {
        "attention.output": "attention.out_lin",
        "attention_residual.norm": "sa_layer_norm",
        "feed_forward.inner": "ffn.lin1",
        "feed_forward.outer": "ffn.lin2",
        "feed_forward_residual.norm": "output_layer_norm",
    },
)
LAYOUTS = {layout.model_type: layout for layout in (BERT, DISTILBERT)}


def convert_bert_config(config: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """Return the `[model]` section of a recipe for a BERT's config, and its vocabulary size.

    >>> table, _ = convert_bert_config({"model_type": "distilbert", "dim": 64})
    >>> table["d_model"], table["token_types"], table["pooler"]
    (64, 0, 'relu')
    """
    layout = LAYOUTS[config["model_type"]]
    check_settings(config, _REQUIRED_SETTINGS, defaults={})
    table: dict[str, Any] = {
        ours: check_size(theirs, config.get(theirs, default))
        for ours, (theirs, default) in layout.sizes.items()
    }
    eps = config.get("layer_norm_eps", 1e-12) if layout is BERT else 1e-12
    vocab_size = table.pop("vocab_size")
    return {
        "kind": "bert",
        "token_types": 0,
        **table,
        "activation": read_activation(config, "gelu", key=layout.activation_key),
        "pooler": layout.pooler,
        "norm_eps": check_number("layer_norm_eps", eps),
    }, vocab_size


def read_labels(config: Mapping[str, Any]) -> list[str]:
    """Return the names of the classes that a config has, in order."""
    problem = config.get("problem_type")
    if problem not in (None, "single_label_classification"):
        raise UserError(
            f"{CONFIG_FILE}: problem_type = {safe_repr(problem)} is not supported: "
            "expected 'single_label_classification'"
        )
    names = config.get("id2label", {"0": "LABEL_0", "1": "LABEL_1"})
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise UserError(f"{CONFIG_FILE}: id2label: expected the name of each class")
    labels = [names[str(k)] for k in range(len(names)) if str(k) in names]
    if len(set(labels)) < max(len(names), 2):
        raise UserError(f"{CONFIG_FILE}: id2label: expected two classes or more, numbered from 0")
    return labels


def read_bert(folder: Path, config: Mapping[str, Any]) -> BertClassifier:
    """Read a classifier that Hugging Face's `save_pretrained` wrote."""
    model, new_layers = read_bert_body(folder, config)
    if new_layers:
        raise UserError(
            f"{folder}: no classifier: expected a {LAYOUTS[config['model_type']].architecture}; "
            f"to train one: workings train --from {folder} --task classify --data FILE"
        )
    return model


def read_bert_body(
    folder: Path, config: Mapping[str, Any]
) -> tuple[BertClassifier, tuple[str, ...]]:
    """Read a model for fine-tuning: a BERT that is no classifier, too.

    Return it with the names of the layers that the file does not have. Their weights are new.
    """
    layout, labels = LAYOUTS[config["model_type"]], read_labels(config)
    table, vocab_size = convert_bert_config(config)
    path = find_weights_file(folder)
    tensors = _normalize_names(read_weights(path))
    new_layers: tuple[str, ...] = ()
    if "classifier.weight" not in tensors:
        tensors = _select_body(tensors, layout)
        new_layers = ("head",) + ("pooler",) * (f"{layout.pooler_name}.weight" not in tensors)
    if f"{layout.block}.{table['layers'] - 1}.{layout.qkv[0]}.weight" not in tensors:
        raise UserError(f"{path}: fewer than the {table['layers']:,} layers of {CONFIG_FILE}")
    with meta_device():  # no memory is allocated before all shapes match
        model = build_classifier(table, vocab_size, len(labels))
    assert isinstance(model, BertClassifier)
    mappings = [m for m in _map_tensors(layout, table) if m.name.split(".")[0] not in new_layers]
    weights = join_tensors(model, mappings, tensors, layout.architecture, path)
    for name in new_layers:
        layer = model.get_submodule(name).to_empty(device="cpu")
        assert isinstance(layer, nn.Linear)
        layer.reset_parameters()
    model.load_state_dict(weights, assign=True, strict=not new_layers)
    return model.eval(), new_layers


def write_bert(
    model: TextClassifier,
    labels: Sequence[str],
    folder: Path,
    layout_name: str,
    *,
    pad_id: int | None = None,
) -> None:
    """Write a model into a folder as `AutoModelForSequenceClassification` reads it."""
    layout, table = LAYOUTS[layout_name], check_bert(model, layout_name)
    sizes = {theirs: table[ours] for ours, (theirs, _) in layout.sizes.items()}
    config = {
        "architectures": [layout.architecture],
        "model_type": layout.model_type,
        **sizes,
        layout.activation_key: activation_name(table["activation"]),
        "layer_norm_eps": table["norm_eps"],
        "pad_token_id": pad_id,
        "id2label": {str(k): label for k, label in enumerate(labels)},
        "label2id": {label: k for k, label in enumerate(labels)},
    }
    export_tensors(
        folder / WEIGHTS_FILE, split_tensors(model.state_dict(), _map_tensors(layout, table))
    )
    write_json(folder / CONFIG_FILE, config)


def check_bert(model: TextClassifier, layout_name: str) -> dict[str, Any]:
    """Return a model's settings; raise UserError if it does not fit a layout."""
    layout = LAYOUTS[layout_name]
    if not isinstance(model, BertClassifier):
        raise UserError(NOT_BERT)
    table, has_types = _read_settings(model), model.token_types is not None
    if model.pooler_activation != layout.pooler or has_types != ("token_types" in layout.sizes):
        fitting = "bert" if layout is DISTILBERT else "distilbert"
        raise UserError(
            f"a {layout_name} has model.pooler = {layout.pooler!r} and "
            f"{'some' if layout is BERT else 'no'} model.token_types: try --to {fitting}"
        )
    if layout is DISTILBERT and table["norm_eps"] != 1e-12:
        raise UserError("a distilbert has model.norm_eps = 1e-12")
    return table


def _read_settings(model: BertClassifier) -> dict[str, Any]:
    block = model.blocks[0]
    assert isinstance(block, EncoderBlock)
    return {
        "vocab_size": model.embedding.num_embeddings,
        "d_model": model.embedding.embedding_dim,
        "layers": len(model.blocks),
        "heads": block.attention.heads,
        "d_ff": block.feed_forward.inner.out_features,
        "max_positions": len(model.positions.table),
        "token_types": 0 if model.token_types is None else model.token_types.num_embeddings,
        "activation": block.feed_forward.activation,
        "norm_eps": model.embedding_norm.eps,
    }


def _map_tensors(layout: BertLayout, table: Mapping[str, Any]) -> Iterator[TensorMapping]:
    embeddings = f"{layout.prefix}embeddings"
    yield map_tensor("embedding.weight", f"{embeddings}.word_embeddings.weight")
    yield map_tensor("positions.table", f"{embeddings}.position_embeddings.weight")
    if table["token_types"]:
        yield map_tensor("token_types.weight", f"{embeddings}.token_type_embeddings.weight")
    yield from map_norm("embedding_norm", f"{embeddings}.LayerNorm")
    for k in range(table["layers"]):
        block, hf_block = f"blocks.{k}", f"{layout.block}.{k}"
        projections = [f"{hf_block}.{name}" for name in layout.qkv]
        yield from map_qkv(f"{block}.attention.qkv", projections, [table["d_model"]] * 3)
        for name, hf_name in layout.parts.items():
            map_layer: Callable[..., Iterator[TensorMapping]]
            map_layer = map_norm if name.endswith(".norm") else map_linear
            yield from map_layer(f"{block}.{name}", f"{hf_block}.{hf_name}")
    yield from map_linear("pooler", layout.pooler_name)
    yield from map_linear("head", "classifier")


def _select_body(tensors: Mapping[str, Tensor], layout: BertLayout) -> dict[str, Tensor]:
    """Return the tensors of a model without its head, which may be one that predicts words."""
    body = {name: t for name, t in tensors.items() if name.startswith(layout.prefix)}
    # A model that never had a head has names without a prefix.
    return body or {f"{layout.prefix}{name}": t for name, t in tensors.items()}


def _normalize_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename the norms of the first BERTs, and leave out the position ids that some files have."""
    renamed = {
        name.replace("LayerNorm.gamma", "LayerNorm.weight").replace(
            "LayerNorm.beta", "LayerNorm.bias"
        ): t
        for name, t in tensors.items()
    }
    return {name: t for name, t in renamed.items() if not name.endswith(".position_ids")}
