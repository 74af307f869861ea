"""Models of every kind, and comparisons of their graphs with the models themselves."""

from collections.abc import Callable

import torch
from torch import Tensor

from workings.interop.graph_base import Graph, export_graph
from workings.interop.graphs import (
    build_classifier_graph,
    build_encoder_decoder_graphs,
    build_language_model_graphs,
)
from workings.models.captioning import ImageBatch, build_captioner
from workings.models.classifiers import NgramClassifier, build_classifier
from workings.models.language import build_language_model
from workings.models.tfidf import TfidfClassifier
from workings.models.translation import SentenceBatch, build_translator

VOCAB_SIZE, IMAGE_SIZE, TOLERANCE = 20, 16, 1e-5
CHARACTERS = ["<pad>", "<s>", "<unk>", *" \n\té日本-.,aAbBcßéÉ"]
SIZES = ((1, 1), (3, 1), (4, 9), (2, 40), (1, 300))  # batch size and length
Run = Callable[[dict[str, Tensor]], dict[str, Tensor]]

SMALL_RECURRENT = {"kind": "recurrent", "d_model": 6, "hidden_size": 5}
SMALL_TRANSFORMER = {"kind": "transformer", "d_model": 8, "heads": 2, "layers": 1, "d_ff": 12}
SMALL_CONVOLUTION = {"kind": "convolution", "d_model": 6, "channels": [5, 4], "kernel": 3}
CLASSIFIERS = {
    "ngrams": {"kind": "ngrams", "min_count": 1},
    "tf-idf": {"kind": "tf-idf", "min_count": 1, "max_words": 3},
    "tf-idf-words": {"kind": "tf-idf", "min_count": 1, "max_characters": 0},
    "tf-idf-characters": {"kind": "tf-idf", "min_count": 1, "max_words": 0},
    "language-model-last": {"kind": "language-model", "body": SMALL_TRANSFORMER},
    "language-model-concat": {
        "kind": "language-model", "pooling": "concat", "body": {**SMALL_RECURRENT, "cell": "gru"},
    },
    "perceptron-mean": {"kind": "perceptron", "pooling": "mean", "hidden_sizes": [7, 5]},
    "perceptron-flatten": {"kind": "perceptron", "length": 12, "hidden_sizes": [7, 5]},
    "perceptron-left": {
        "kind": "perceptron", "length": 12, "padding": "left", "hidden_sizes": [7, 5],
    },
    "convolution-max": {**SMALL_CONVOLUTION, "stride": 2},
    "convolution-unmasked": {**SMALL_CONVOLUTION, "stride": 2, "padding": "unmasked"},
    "convolution-flatten": {**SMALL_CONVOLUTION, "pooling": "flatten", "length": 20, "stride": 1},
    "regions": {"kind": "regions", "regions": [1, 3], "channels": 6},
    "rnn-last": {**SMALL_RECURRENT, "cell": "rnn", "pooling": "last"},
    "gru-mean": {**SMALL_RECURRENT, "cell": "gru", "pooling": "mean", "bidirectional": True},
    "lstm-max": {**SMALL_RECURRENT, "cell": "lstm", "layers": 2, "bidirectional": True},
    "lstm-concat": {**SMALL_RECURRENT, "cell": "lstm", "bidirectional": True, "pooling": "concat"},
    "lstm-left": {**SMALL_RECURRENT, "cell": "lstm", "padding": "left", "pooling": "last"},
    "transformer-mean": SMALL_TRANSFORMER,
    "transformer-max": {**SMALL_TRANSFORMER, "positions": "learned", "pooling": "max"},
    "transformer-last": {**SMALL_TRANSFORMER, "positions": "none", "pooling": "last"},
    "bert": {**SMALL_TRANSFORMER, "kind": "bert"},
    "transformer-unmasked": {**SMALL_TRANSFORMER, "padding": "unmasked"},
}  # fmt: skip
LANGUAGE_MODELS = {
    "rnn": {**SMALL_RECURRENT, "cell": "rnn"},
    "gru": {**SMALL_RECURRENT, "cell": "gru", "layers": 2},
    "lstm": {**SMALL_RECURRENT, "cell": "lstm", "layers": 2},
    "rotary": {**SMALL_TRANSFORMER, "heads": 4, "kv_heads": 2, "layers": 2},
    "llama": {
        **SMALL_TRANSFORMER, "norm_kind": "rms", "gated": True, "activation": "silu",
    },
    "neox": {**SMALL_TRANSFORMER, "parallel_residual": True, "rotary_fraction": 0.5},
    "learned": {**SMALL_TRANSFORMER, "positions": "learned", "max_positions": 300},
    "sinusoidal": {**SMALL_TRANSFORMER, "positions": "sinusoidal", "norm": "post"},
}  # fmt: skip
TRANSLATORS = {
    "transformer": {**SMALL_TRANSFORMER, "share_embeddings": False, "layers": 2},
    "transformer-post": {**SMALL_TRANSFORMER, "share_embeddings": False, "norm": "post"},
    "rnn-none": {**SMALL_RECURRENT, "cell": "rnn", "attention": "none"},
    "gru-fixed": {**SMALL_RECURRENT, "cell": "gru", "attention": "fixed"},
    "lstm-none": {
        **SMALL_RECURRENT, "cell": "lstm", "attention": "none", "bidirectional": False, "layers": 2,
    },
    "gru-additive": {**SMALL_RECURRENT, "cell": "gru", "attention": "additive"},
    "lstm-dot": {**SMALL_RECURRENT, "cell": "lstm", "attention": "dot", "layers": 2},
    "rnn-general": {**SMALL_RECURRENT, "cell": "rnn", "attention": "general"},
}  # fmt: skip
CAPTIONERS = {
    "transformer-residual": {**SMALL_TRANSFORMER, "encoder": "residual", "channels": [4, 8]},
    "transformer-vgg": {**SMALL_TRANSFORMER, "encoder": "vgg", "channels": [4, 8]},
    "lstm-residual": {**SMALL_RECURRENT, "cell": "lstm", "channels": [4, 8]},
    "gru-none": {
        **SMALL_RECURRENT, "cell": "gru", "attention": "none", "encoder": "vgg", "channels": [4, 8],
    },
}  # fmt: skip


def run_exported(graph: Graph) -> Run:
    """Return the program that torch.export makes of a graph."""
    program = export_graph(graph).module()
    names = [spec.name for spec in graph.outputs]

    def run(feed: dict[str, Tensor]) -> dict[str, Tensor]:
        outputs = program(*(feed[spec.name] for spec in graph.inputs))
        return dict(zip(names, outputs, strict=True))

    return run


def check_classifier(table: dict, run_graph: Callable[[Graph], Run]) -> None:
    """Compare a classifier with its graph, for padded batches; a text may be empty."""
    torch.manual_seed(0)
    model = perturb(build_classifier(table, VOCAB_SIZE, 3))
    is_counting = isinstance(model, NgramClassifier | TfidfClassifier)
    if is_counting:
        model.read_vocabulary(CHARACTERS)
        model.prepare(torch.randint(VOCAB_SIZE, (30, 9)).tolist(), [0, 1, 2] * 10)
        torch.nn.init.normal_(model.weights)
    run = run_graph(build_classifier_graph(model))
    for batch, length in SIZES:
        length = model.fixed_length or length
        ids, lengths = torch.randint(VOCAB_SIZE, (batch, length)), make_lengths(batch, length, 0)
        inputs = ids
        if is_counting:
            rows = [model.featurize(row[:n].tolist()) for row, n in zip(ids, lengths, strict=True)]
            inputs = torch.zeros(batch, max(1, *map(len, rows)), dtype=torch.long)
            for row, numbers in zip(inputs, rows, strict=True):
                row[: len(numbers)] = torch.from_numpy(numbers)
        outputs = run({"input_ids": ids, "attention_mask": make_mask(lengths, length)})
        assert_same(outputs["logits"], model(inputs, lengths))


def check_language_model(table: dict, run_graph: Callable[[Graph], Run]) -> None:
    """Compare a language model with its graphs; the one with a state reads a text in two parts."""
    torch.manual_seed(0)
    model = perturb(build_language_model(table, VOCAB_SIZE))
    plain, graph = build_language_model_graphs(model)
    run_plain, run = run_graph(plain), run_graph(graph)
    for batch, length in SIZES:
        ids = torch.randint(VOCAB_SIZE, (batch, length))
        expected, state = model(ids)[0], start_state(graph, batch)
        assert_same(run_plain({"input_ids": ids})["logits"], expected)
        for part in filter(lambda part: part.shape[1], ids.split((length + 1) // 2, 1)):
            outputs = run({"input_ids": part, **state})
            state = {s.input.name: outputs[s.output] for s in graph.state}
            assert_same(outputs["logits"], expected[:, : part.shape[1]])
            expected = expected[:, part.shape[1] :]


def check_translator(table: dict, run_graph: Callable[[Graph], Run]) -> None:
    """Compare a translator with its graphs, for padded batches of sentences."""
    torch.manual_seed(0)
    model = perturb(build_translator(table, VOCAB_SIZE, VOCAB_SIZE + 3))
    graphs = build_encoder_decoder_graphs(model)
    encoder, decoder = map(run_graph, graphs)
    for batch, length in SIZES:
        ids, lengths = torch.randint(VOCAB_SIZE, (batch, length)), make_lengths(batch, length, 1)
        mask = make_mask(lengths, length)
        given = encoder({"input_ids": ids, "attention_mask": mask})
        given["encoder_attention_mask"] = mask
        check_steps(model, SentenceBatch(ids, lengths), graphs[1], decoder, given)


def check_captioner(table: dict, run_graph: Callable[[Graph], Run]) -> None:
    """Compare a captioner with its graphs."""
    torch.manual_seed(0)
    model = perturb(build_captioner(table, VOCAB_SIZE, pixels=IMAGE_SIZE))
    graphs = build_encoder_decoder_graphs(model, IMAGE_SIZE)
    encoder, decoder = map(run_graph, graphs)
    for batch in (1, 2, 5):
        pixels = torch.randint(256, (batch, IMAGE_SIZE, IMAGE_SIZE, 3), dtype=torch.uint8)
        source = ImageBatch(pixels, torch.arange(batch))
        check_steps(model, source, graphs[1], decoder, encoder({"pixel_values": pixels}))


def check_steps(model, source, graph: Graph, decoder: Run, given: dict[str, Tensor]) -> None:
    """Compare four steps of decoding."""
    tokens = source.start_tokens()
    inputs = start_state(graph, len(tokens)) | given
    expected, state = model.start(source)
    for _ in range(4):
        outputs = decoder({"input_ids": tokens.unsqueeze(1), **inputs})
        assert_same(outputs["logits"], expected.unsqueeze(1))
        inputs |= {s.input.name: outputs[s.output] for s in graph.state}
        tokens = torch.randint_like(tokens, VOCAB_SIZE)
        expected, state = model.step(tokens, state)


MODEL_TABLES = {
    "classify": CLASSIFIERS,
    "language": LANGUAGE_MODELS,
    "translate": TRANSLATORS,
    "caption": CAPTIONERS,
}
CHECKS = {
    **{f"classifier-{name}": (check_classifier, table) for name, table in CLASSIFIERS.items()},
    **{f"lm-{name}": (check_language_model, table) for name, table in LANGUAGE_MODELS.items()},
    **{f"translator-{name}": (check_translator, table) for name, table in TRANSLATORS.items()},
    **{f"captioner-{name}": (check_captioner, table) for name, table in CAPTIONERS.items()},
}


def perturb(model):
    """Add noise to all weights: initial biases are zero, and initial attention nearly uniform."""
    for weight in model.parameters():
        weight.add_(0.2 * torch.randn_like(weight))
    return model.eval()


def make_lengths(batch: int, length: int, shortest: int) -> Tensor:
    lengths = torch.randint(shortest, length + 1, (batch,))
    lengths[0] = length
    return lengths


def make_mask(lengths: Tensor, length: int) -> Tensor:
    return (torch.arange(length) < lengths.unsqueeze(1)).long()


def start_state(graph: Graph, batch: int) -> dict[str, Tensor]:
    sizes = {"batch": batch, "past_length": 0}
    return {
        part.input.name: torch.zeros([sizes.get(n, n) for n in part.input.shape])
        for part in graph.state
    }


def assert_same(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, atol=TOLERANCE, rtol=TOLERANCE)
