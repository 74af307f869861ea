"""Captioners: stepwise decoding, shared images, the grid, and feature normalization."""

import pytest
import torch

from workings.decode import beam_search
from workings.models.captioning import (
    FeatureBatchNorm,
    ImageBatch,
    build_captioner,
    grid_position_encoding,
)
from workings.models.seq2seq import START, RecurrentDecoder, TransformerDecoder
from workings.models.translation import build_translator
from workings.trace import Trace

KINDS = {
    "none": {"kind": "recurrent", "attention": "none"},
    "fixed": {"kind": "recurrent", "attention": "fixed", "cell": "gru"},
    "additive": {"kind": "recurrent", "layers": 2},
    "dot, vgg": {"kind": "recurrent", "attention": "dot", "encoder": "vgg", "blocks": 2},
    "general": {"kind": "recurrent", "attention": "general", "cell": "rnn"},
    "transformer": {"kind": "transformer", "layers": 2, "heads": 2},
}
VOCAB_SIZE = 17


def make_model(name):
    torch.manual_seed(0)
    hidden = "d_ff" if KINDS[name]["kind"] == "transformer" else "hidden_size"
    table = {"d_model": 8, hidden: 12, "channels": [4, 8], **KINDS[name]}
    model = build_captioner(table, VOCAB_SIZE).eval()
    with torch.no_grad():  # so that biases matter and attention is not uniform
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    return model


def image_batch(*image_index):
    generator = torch.Generator().manual_seed(1)
    pixels = torch.randint(
        0, 256, (max(image_index) + 1, 16, 16, 3), generator=generator, dtype=torch.uint8
    )
    return ImageBatch(pixels, torch.tensor(image_index))


def captions(count, time):
    ids = torch.randint(4, VOCAB_SIZE, (count, time), generator=torch.Generator().manual_seed(2))
    ids[:, 0] = START
    return ids


@pytest.mark.parametrize("name", KINDS)
@torch.no_grad()
def test_stepwise_decoding_equals_one_pass(name):
    model, source, target = make_model(name), image_batch(0, 1, 2), captions(3, 5)
    logits, state = model.start(source)
    steps = [logits]
    for tokens in target[:, 1:].unbind(1):
        logits, state = model.step(tokens, state)
        steps.append(logits)
    torch.testing.assert_close(torch.stack(steps, 1), model(source, target), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", KINDS)
def test_an_image_with_several_captions_is_encoded_once(name):
    """Logits and gradients equal those of a batch with one image per caption."""
    model, target = make_model(name), captions(4, 5)
    shared = image_batch(0, 0, 1, 0)
    repeated = ImageBatch(shared.pixels[shared.image_index], torch.arange(4))
    num_encoded = []
    model.grid.encoder.register_forward_hook(
        lambda _, inputs, __: num_encoded.append(len(inputs[0]))
    )
    gradients = []
    for source in (shared, repeated):
        model.zero_grad()
        logits = model(source, target)
        logits.square().sum().backward()
        gradients.append((logits.detach(), *(p.grad for p in model.parameters())))
    assert num_encoded == [2, 4]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-3)


def test_feature_norm_removes_what_all_images_share():
    """A shared offset changes neither the output nor gets a gradient."""
    torch.manual_seed(0)
    norm, x, shared = (
        FeatureBatchNorm(6).train(),
        torch.randn(5, 6),
        torch.zeros(6, requires_grad=True),
    )
    torch.testing.assert_close(norm(x + 100.0, 5), norm(x, 5), atol=1e-4, rtol=0)
    (norm(x + shared, 5) * torch.randn(5, 6)).sum().backward()
    torch.testing.assert_close(shared.grad, torch.zeros(6), atol=1e-5, rtol=0)


def test_feature_norm_of_one_image_uses_the_running_statistics():
    """Copies of one image would be normalized to zero by their own statistics."""
    torch.manual_seed(0)
    norm, same = FeatureBatchNorm(6).train(), torch.randn(1, 6).expand(3, 6)
    before = norm.running_var.clone()
    output = norm(same, 1)
    assert output.abs().min() > 0
    assert torch.equal(norm.running_var, before)
    torch.testing.assert_close(output, norm.eval()(same, 3))


@pytest.mark.parametrize("name", KINDS)
@torch.no_grad()
def test_logits_depend_on_where_an_object_is(name):
    model, target = make_model(name), captions(1, 4)
    left = torch.zeros(1, 16, 16, 3, dtype=torch.uint8)
    left[:, 4:8, 2:6] = 255
    one, other = ImageBatch(left, torch.tensor([0])), ImageBatch(left.flip(2), torch.tensor([0]))
    assert (model(one, target) - model(other, target)).abs().max() > 1e-4


@torch.no_grad()
def test_beam_search():
    for name in KINDS:
        hypotheses = beam_search(make_model(name), image_batch(0, 1), stop=3, max_length=6, beams=3)
        assert [len(best) for best in hypotheses] == [3, 3]


def test_captioners_and_translators_share_their_decoders():
    for kind, hidden, decoder in (
        ("recurrent", "hidden_size", RecurrentDecoder),
        ("transformer", "d_ff", TransformerDecoder),
    ):
        table = {"kind": kind, "d_model": 8, hidden: 8}
        for model in (
            build_captioner(table, VOCAB_SIZE),
            build_translator(table, VOCAB_SIZE, VOCAB_SIZE),
        ):
            assert isinstance(model, decoder)


@torch.no_grad()
def test_weights_over_the_grid_sum_to_one():
    model = make_model("additive")
    with Trace(model, only="attention.weights") as trace:
        model(image_batch(0, 1), captions(2, 3))
    weights = torch.stack(trace.steps("attention.weights"))
    assert weights.shape[-1] == 4 * 4  # 16 pixels, halved by each of two stages
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))


def test_grid_position_encodings_are_distinct():
    cells = grid_position_encoding(5, 7, 16)
    assert torch.cdist(cells, cells).fill_diagonal_(9).min() > 0.1
    torch.testing.assert_close(cells[0, :8], cells[6, :8])  # the same row
    torch.testing.assert_close(cells[0, 8:], cells[7, 8:])  # the same column
