"""Folders with a model as ONNX files, its tokenizers, a description, and a README that runs it.

Using them takes onnxruntime, numpy and tokenizers, and nothing of this package. File names and
names of inputs are those of Hugging Face's Optimum, where it has any.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.data.tokenizers.base import Tokenizer, TokenizerPair
from workings.interop.graph_base import Graph, TensorSpec
from workings.interop.graphs import (
    build_classifier_graph,
    build_encoder_decoder_graphs,
    build_language_model_graphs,
)
from workings.interop.huggingface import write_json
from workings.interop.onnx import OPSET, write_graph
from workings.interop.onnx_usage import (
    captioner_usage,
    classifier_usage,
    format_readme,
    language_model_usage,
    translator_usage,
)
from workings.interop.tokenizer_files import write_tokenizer
from workings.io import write_text
from workings.models.captioning import Captioner
from workings.models.classifier_base import TextClassifier
from workings.models.language import LanguageModel
from workings.models.translation import Translator
from workings.tasks.base import RowFormat

DESCRIPTION_FILE, README_FILE = "model.json", "README.md"
MODEL_FILE, WITH_PAST_FILE = "model.onnx", "decoder_with_past_model.onnx"
ENCODER_FILE, DECODER_FILE = "encoder_model.onnx", "decoder_model.onnx"


@dataclass(frozen=True)
class OnnxFolder:
    """An empty folder to write a model into, which will have this name in the end."""

    path: Path
    name: str

    def write_classifier(
        self,
        model: TextClassifier,
        tokenizer: Tokenizer,
        labels: Sequence[str],
        rows: RowFormat,
        threshold: float | None,
    ) -> list[str]:
        """Write a classifier; return notes for the user."""
        graph = build_classifier_graph(model)
        facts = {
            "task": "text-classification",
            "labels": list(labels),
            "probabilities": "softmax" if threshold is None else "sigmoid",
            "threshold": threshold,
            "max_length": min(rows.max_length, rows.padded_length or rows.max_length),
            "padded_length": rows.padded_length,
            "padding_side": "left" if rows.pads_left else "right",
        }
        code = classifier_usage(
            has_mask=len(graph.inputs) > 1,
            pads_left=rows.pads_left,
            multi_label=threshold is not None,
        )
        return self._write({MODEL_FILE: graph}, facts, {".": tokenizer}, code)

    def write_language_model(self, model: LanguageModel, tokenizer: Tokenizer) -> list[str]:
        """Write a language model, without and with a cache; return notes for the user."""
        plain, with_past = build_language_model_graphs(model)
        facts = {
            "task": "text-generation",
            "max_positions": model.max_positions,
            "state": _describe_state(with_past),
        }
        graphs = {MODEL_FILE: plain, WITH_PAST_FILE: with_past}
        return self._write(graphs, facts, {".": tokenizer}, language_model_usage())

    def write_translator(self, model: Translator, tokenizers: TokenizerPair) -> list[str]:
        """Write the encoder and the decoder of a translator; return notes for the user."""
        encoder, decoder = build_encoder_decoder_graphs(model)
        is_shared = tokenizers.source == tokenizers.target
        facts = {"task": "translation", "state": _describe_state(decoder)}
        sides = {"source": tokenizers.source, "target": tokenizers.target}
        return self._write(
            {ENCODER_FILE: encoder, DECODER_FILE: decoder},
            facts,
            {".": tokenizers.target} if is_shared else sides,
            translator_usage(is_shared=is_shared),
            lowercase=tokenizers.lower,
        )

    def write_captioner(self, model: Captioner, tokenizer: Tokenizer, image_size: int) -> list[str]:
        """Write the encoder and the decoder of a captioner; return notes for the user."""
        encoder, decoder = build_encoder_decoder_graphs(model, image_size)
        facts = {
            "task": "image-to-text",
            "image_size": image_size,
            "state": _describe_state(decoder),
        }
        graphs = {ENCODER_FILE: encoder, DECODER_FILE: decoder}
        return self._write(graphs, facts, {".": tokenizer}, captioner_usage())

    def _write(
        self,
        graphs: Mapping[str, Graph],
        facts: Mapping[str, Any],
        tokenizers: Mapping[str, Tokenizer],
        code: str,
        *,
        lowercase: bool = False,
    ) -> list[str]:
        """Write graphs, tokenizers (by folder), description and README."""
        for file, graph in graphs.items():
            write_graph(graph, self.path / file)
        notes = []
        for side, tokenizer in tokenizers.items():
            (self.path / side).mkdir(exist_ok=True)
            if not write_tokenizer(tokenizer, self.path / side, lowercase=lowercase):
                notes = [f"no tokenizer is written: `tokenizers` has none like {tokenizer.kind}"]
        description = {
            **facts,
            "special_ids": _special_ids(tokenizers["." if "." in tokenizers else "target"]),
            "opset": OPSET,
            "files": {
                file: {
                    "inputs": [_describe(spec) for spec in graph.inputs],
                    "outputs": [_describe(spec) for spec in graph.outputs],
                }
                for file, graph in graphs.items()
            },
        }
        write_json(self.path / DESCRIPTION_FILE, description)
        write_text(self.path / README_FILE, format_readme(self.name, facts["task"], notes, code))
        return notes


def _special_ids(tokenizer: Tokenizer) -> dict[str, int]:
    ids = {
        "pad": tokenizer.pad_id,
        "bos": tokenizer.bos_id,
        "unk": tokenizer.unk_id if tokenizer.unk_id >= 0 else None,
        "eos": tokenizer.eos_id,
    }
    return {name: token_id for name, token_id in ids.items() if token_id is not None}


def _describe(spec: TensorSpec) -> dict[str, Any]:
    dtype = str(spec.dtype).removeprefix("torch.")
    return {"name": spec.name, "type": dtype, "shape": list(spec.shape)}


def _describe_state(graph: Graph) -> list[dict[str, Any]]:
    return [
        {"input": part.input.name, "output": part.output, "shape": list(part.input.shape)}
        for part in graph.state
    ]
