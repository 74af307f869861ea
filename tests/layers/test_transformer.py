"""Dropout, norms, feed-forward, encoder and decoder blocks: against torch's and formulas."""

import math

import pytest
import torch
from torch import Tensor, nn

from workings import Trace, UserError
from workings.layers import (
    DecoderBlock,
    Dropout,
    EncoderBlock,
    FeedForward,
    KeyValueCache,
    LayerNorm,
    RMSNorm,
    SequenceBatchNorm,
    TransformerBlock,
)

IS_TOKEN = torch.tensor([[True, True, True, False], [True, True, False, False], [True] * 4])


def fill_both(norm: nn.Module, reference: nn.Module, fill) -> None:
    fill(norm)
    with torch.no_grad():
        reference.weight.copy_(norm.gamma)
        reference.bias.copy_(norm.beta)


# -- dropout --------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_dropout_has_its_rate_and_scales_the_rest(rate):
    torch.manual_seed(1)
    x = torch.randn(300, 400, requires_grad=True)
    y = Dropout(rate)(x)
    kept = y != 0
    assert abs(kept.float().mean() - (1 - rate)) < 4 * (rate * (1 - rate) / x.numel()) ** 0.5
    torch.testing.assert_close(y[kept], x[kept] / (1 - rate), rtol=1e-4, atol=0)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(gradient, kept / (1 - rate), rtol=1e-4, atol=0)
    for axis in (0, 1):  # all rows and columns have the same rate
        rates = kept.float().mean(axis)
        assert rates.std() < 1.3 * (rate * (1 - rate) / kept.shape[axis]) ** 0.5
    correlation = torch.corrcoef(
        torch.stack((kept[:, :-1].flatten(), kept[:, 1:].flatten())).float()
    )
    assert abs(correlation[0, 1]) < 0.02


def test_every_call_of_dropout_draws_a_new_mask_that_the_seed_determines():
    layer, x = Dropout(0.5), torch.ones(50)
    torch.manual_seed(3)
    first, second = layer(x), layer(x)
    assert not torch.equal(first, second)
    torch.manual_seed(3)
    assert torch.equal(layer(x), first)
    assert torch.equal(layer(x), second)


def test_edge_cases_of_dropout_equal_torchs():
    x = torch.randn(7)
    assert torch.equal(Dropout(0.5).eval()(x), x)
    assert torch.equal(Dropout(0.0)(x), x)
    assert torch.equal(Dropout(1.0)(x), torch.zeros(7))
    assert Dropout(0.5)(torch.ones(0, 3)).shape == (0, 3)
    assert Dropout(0.5)(torch.ones(3, 2).t()).shape == (2, 3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_dropout_scales_16_bit_numbers_in_32_bits(dtype):
    torch.manual_seed(2)
    x = torch.linspace(1, 2, 1000).to(dtype)
    y = Dropout(0.3)(x)
    assert y.dtype == dtype
    kept = y != 0
    assert (y[kept] == (x[kept].float() / 0.7).to(dtype)).float().mean() > 0.98


# -- layer norm -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(6,), (5, 6), (2, 3, 6)])
def test_layer_norm_equals_torchs_forward_and_backward(shape, fill, waves):
    ours, theirs = LayerNorm(6), nn.LayerNorm(6)
    fill_both(ours, theirs, fill)
    x, y = (waves(*shape, start=50).requires_grad_() for _ in range(2))
    out, expected = ours(x), theirs(y)
    torch.testing.assert_close(out, expected)
    out.pow(3).sum().backward()
    expected.pow(3).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)
    torch.testing.assert_close(ours.gamma.grad, theirs.weight.grad)
    torch.testing.assert_close(ours.beta.grad, theirs.bias.grad)


def test_a_traced_layer_norm_equals_an_untraced_one(fill, waves):
    norm = fill(LayerNorm(6))
    x, y = (waves(2, 3, 6, start=50).requires_grad_() for _ in range(2))
    with Trace() as trace:
        with_trace = norm(x)
    without_trace = norm(y)
    torch.testing.assert_close(with_trace, without_trace)
    with_trace.pow(3).sum().backward()
    without_trace.pow(3).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)
    assert set(trace) == {"mean", "variance", "normalised"}
    torch.testing.assert_close(trace["mean"], x.mean(-1, keepdim=True))
    torch.testing.assert_close(trace["variance"], x.var(-1, correction=0, keepdim=True))


def test_a_trace_can_replace_the_normalized_vector(fill):
    norm = fill(LayerNorm(3))
    with Trace(only="nothing", replace={"normalised": torch.zeros_like}):
        torch.testing.assert_close(norm(torch.tensor([1.0, 2.0, 6.0])), norm.beta)


def test_layer_norm_without_epsilon_as_in_the_notes():
    x = [0.001, -0.002, 0.004, 0.0]  # so small that an epsilon makes a difference
    mean = sum(x) / 4
    deviation = math.sqrt(sum((v - mean) ** 2 for v in x) / 4)  # ÷ d, not ÷ (d − 1)
    expected = torch.tensor([(v - mean) / deviation for v in x])
    torch.testing.assert_close(LayerNorm(4, eps=0.0)(torch.tensor(x)), expected)
    assert not torch.allclose(LayerNorm(4)(torch.tensor(x)), expected, atol=0.1)


def test_a_constant_vector_becomes_beta(fill):
    norm = fill(LayerNorm(4))
    torch.testing.assert_close(norm(torch.full((2, 4), 3.0)), norm.beta.expand(2, 4))
    assert LayerNorm(4, eps=0.0)(torch.full((4,), 3.0)).isnan().all()  # 0/0


def test_layer_norm_snapshot(fill):
    out = fill(LayerNorm(3))(torch.tensor([[1.0, 2.0, 6.0], [0.0, 3.0, -1.0]]))
    expected = [[-1.535852, -1.379847, -0.083438], [-1.086854, 0.289369, -0.417795]]
    torch.testing.assert_close(out, torch.tensor(expected), atol=1e-5, rtol=0)


@pytest.mark.parametrize("norm", [LayerNorm(4), SequenceBatchNorm(4)])
def test_norms_refuse_another_width_traced_or_not(norm):
    with pytest.raises(UserError, match="expected vectors of width 4, got 1"):
        norm(torch.zeros(2, 3, 1))
    with Trace(), pytest.raises(UserError, match="expected vectors of width 4, got 1"):
        norm(torch.zeros(2, 3, 1))


# -- batch norm -----------------------------------------------------------------------------------


def test_batch_norm_equals_torchs_on_the_tokens(fill, waves):
    ours, theirs = SequenceBatchNorm(5), nn.BatchNorm1d(5)
    fill_both(ours, theirs, fill)
    for start in (40, 400):  # two batches, so that the running means change twice
        x, y = (waves(3, 4, 5, start=start).requires_grad_() for _ in range(2))
        out, expected = ours(x, IS_TOKEN), theirs(y[IS_TOKEN])
        torch.testing.assert_close(out[IS_TOKEN], expected)
        assert not out[~IS_TOKEN].any()
        out.pow(3).sum().backward()
        expected.pow(3).sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
    torch.testing.assert_close(ours.gamma.grad, theirs.weight.grad)
    torch.testing.assert_close(ours.beta.grad, theirs.bias.grad)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_variance, theirs.running_var)

    ours.eval(), theirs.eval()
    x = waves(3, 4, 5, start=77)
    torch.testing.assert_close(ours(x, IS_TOKEN)[IS_TOKEN], theirs(x[IS_TOKEN]))
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)  # unchanged by evaluation


def test_batch_norm_without_a_mask_counts_every_position(fill, waves):
    x = waves(3, 4, 5)
    all_tokens = torch.ones(3, 4, dtype=torch.bool)
    unmasked, masked = fill(SequenceBatchNorm(5)), fill(SequenceBatchNorm(5))
    torch.testing.assert_close(unmasked(x), masked(x, all_tokens))
    torch.testing.assert_close(unmasked.running_variance, masked.running_variance)


@pytest.mark.parametrize("padding", [0.0, 1e6, math.nan])
def test_the_content_of_padding_changes_nothing(padding, waves):
    x, y = waves(3, 4, 5), waves(3, 4, 5)
    y[~IS_TOKEN] = padding
    y.requires_grad_()
    clean, padded = SequenceBatchNorm(5), SequenceBatchNorm(5)
    out = padded(y, IS_TOKEN)
    torch.testing.assert_close(out, clean(x, IS_TOKEN))
    torch.testing.assert_close(padded.running_mean, clean.running_mean)
    torch.testing.assert_close(padded.running_variance, clean.running_variance)
    out.pow(3).sum().backward()
    assert y.grad.isfinite().all()
    assert not y.grad[~IS_TOKEN].any()


def test_only_with_batch_norm_a_sentence_depends_on_the_rest_of_the_batch(waves):
    sentence = waves(1, 4, 5)
    batches = [torch.cat((sentence, waves(1, 4, 5, start=s))) for s in (100, 333)]
    one, other = (SequenceBatchNorm(5)(batch)[0] for batch in batches)
    assert not torch.allclose(one, other, atol=1e-2)
    one, other = (LayerNorm(5)(batch)[0] for batch in batches)
    torch.testing.assert_close(one, other, atol=0, rtol=0)


@pytest.mark.parametrize("count", [0, 1])
def test_batch_norm_refuses_to_train_on_fewer_than_two_tokens(count, waves):
    norm, real = SequenceBatchNorm(5), torch.zeros(3, 4, dtype=torch.bool)
    real.view(-1)[:count] = True
    with pytest.raises(UserError, match=f"needs 2 tokens or more to train on, got {count}"):
        norm(waves(3, 4, 5), real)
    assert not norm.running_mean.any()
    out = norm.eval()(waves(3, 4, 5), real)
    torch.testing.assert_close(out[real], waves(3, 4, 5)[real], atol=1e-4, rtol=0)


def test_batch_norm_snapshot(fill):
    x = torch.tensor([[[1.0, 0.0], [2.0, 4.0]], [[6.0, 5.0], [9.0, 9.0]]])
    real = torch.tensor([[True, True], [True, False]])
    expected = [[[-0.637930, -2.019570], [-0.248405, -0.335880]], [[1.309695, 0.085042], [0, 0]]]
    out = fill(SequenceBatchNorm(2))(x, real)
    torch.testing.assert_close(out, torch.tensor(expected), atol=1e-5, rtol=0)


# -- feed-forward ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("activation", "function"), [("relu", nn.ReLU()), ("gelu", nn.GELU())])
def test_feed_forward_is_two_linear_layers_with_an_activation(activation, function, fill, waves):
    layer = fill(FeedForward(4, 6, activation=activation))
    reference = nn.Sequential(nn.Linear(4, 6), function, nn.Linear(6, 4))
    reference.load_state_dict(
        {
            "0.weight": layer.inner.weight,
            "0.bias": layer.inner.bias,
            "2.weight": layer.outer.weight,
            "2.bias": layer.outer.bias,
        }
    )
    x, y = (waves(2, 3, 4, start=90).requires_grad_() for _ in range(2))
    out, expected = layer(x), reference(y)
    torch.testing.assert_close(out, expected)
    out.pow(3).sum().backward()
    expected.pow(3).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)
    for ours, theirs in zip(layer.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_feed_forward_treats_each_position_alone(fill, waves):
    layer, x = fill(FeedForward(4, 6)), waves(2, 3, 4)
    assert layer(x).shape == (2, 3, 4)
    torch.testing.assert_close(layer(x)[1, 2], layer(x[1, 2]))


def test_feed_forward_snapshot(fill):
    # W_1 = sin 1…6, b_1 = sin 7…9, W_2 = sin 10…15, b_2 = sin 16, sin 17
    out = fill(FeedForward(2, 3))(torch.tensor([[1.0, 2.0], [-1.0, 0.5]]))
    expected = [[-2.092450, 0.432319], [-1.565412, 0.418263]]
    torch.testing.assert_close(out, torch.tensor(expected), atol=1e-5, rtol=0)


def test_feed_forward_taps_can_be_read_and_replaced(fill, waves):
    layer, x = fill(FeedForward(4, 6)), waves(2, 3, 4)
    with Trace() as trace:
        layer(x)
    torch.testing.assert_close(trace["hidden"], layer.inner(x))
    torch.testing.assert_close(trace["activated"], layer.inner(x).relu())
    with Trace(replace={"activated": torch.zeros_like}):
        torch.testing.assert_close(layer(x), layer.outer.bias.expand(2, 3, 4))


def test_feed_forward_drops_in_training_only(fill, waves):
    layer, x = fill(FeedForward(4, 6, dropout=1.0)), waves(2, 3, 4)
    torch.testing.assert_close(layer(x), layer.outer.bias.expand(2, 3, 4))
    torch.testing.assert_close(layer.eval()(x), fill(FeedForward(4, 6))(x))


def test_an_unknown_activation_suggests_the_closest():
    with pytest.raises(UserError, match="activation 'rleu': did you mean 'relu'"):
        FeedForward(4, 6, activation="rleu")
    with pytest.raises(UserError, match="activation 'x': expected one of relu, gelu"):
        FeedForward(4, 6, activation="x")


def test_feed_forward_refuses_another_width():
    with pytest.raises(UserError, match="expected vectors of width 4, got 5"):
        FeedForward(4, 6)(torch.zeros(2, 3, 5))


# -- blocks ----------------------------------------------------------------------------------------


WIDTH, HEADS, HIDDEN = 8, 2, 12
SOURCE = torch.tensor([[True] * 5, [True, True, True, False, False]])  # False at padding
VARIANTS = [(norm, activation) for norm in ("pre", "post") for activation in ("relu", "gelu")]

# Parameter names: (ours, torch's).
ATTENTION = [
    ("qkv.weight", "in_proj_weight"),
    ("qkv.bias", "in_proj_bias"),
    ("output.weight", "out_proj.weight"),
    ("output.bias", "out_proj.bias"),
]
LINEARS = [("feed_forward.inner", "linear1"), ("feed_forward.outer", "linear2")]


def pair_names(attentions: dict[str, str], norms: list[str]) -> dict[str, str]:
    """Return torch's name of each parameter of a block."""
    pairs = {
        f"{ours}.{a}": f"{theirs}.{b}" for ours, theirs in attentions.items() for a, b in ATTENTION
    }
    pairs |= {f"{a}.{kind}": f"{b}.{kind}" for a, b in LINEARS for kind in ("weight", "bias")}
    for number, residual in enumerate(norms, start=1):
        pairs[f"{residual}.norm.gamma"] = f"norm{number}.weight"
        pairs[f"{residual}.norm.beta"] = f"norm{number}.bias"
    return pairs


ENCODER = pair_names({"attention": "self_attn"}, ["attention_residual", "feed_forward_residual"])
DECODER = pair_names(
    {"attention": "self_attn", "cross_attention": "multihead_attn"},
    ["attention_residual", "cross_attention_residual", "feed_forward_residual"],
)


def give_same_weights(
    ours: nn.Module, theirs: nn.Module, pairs: dict[str, str]
) -> tuple[nn.Module, nn.Module, dict[str, str]]:
    """Give both the same random weights; biases and gammas as well, so that each one matters."""
    torch.manual_seed(0)
    mine, reference = dict(ours.named_parameters()), dict(theirs.named_parameters())
    assert pairs.keys() == mine.keys()
    assert set(pairs.values()) == reference.keys()
    with torch.no_grad():
        for a, b in pairs.items():
            mine[a].normal_(std=0.5)
            reference[b].copy_(mine[a])
    return ours, theirs, pairs


def assert_same_gradients(
    ours: nn.Module, theirs: nn.Module, pairs: dict[str, str], outputs: tuple[Tensor, Tensor]
) -> None:
    for output in outputs:
        (output * torch.linspace(-1, 1, output.numel()).view_as(output)).sum().backward()
    for a, b in pairs.items():
        mine, reference = ours.get_parameter(a).grad, theirs.get_parameter(b).grad
        torch.testing.assert_close(
            mine, reference, atol=1e-4, rtol=1e-4, msg=lambda m, a=a: f"{a}: {m}"
        )


def encoder_pair(norm: str, activation: str) -> tuple[nn.Module, nn.Module, dict[str, str]]:
    return give_same_weights(
        EncoderBlock(WIDTH, HEADS, HIDDEN, norm=norm, activation=activation),
        nn.TransformerEncoderLayer(
            WIDTH, HEADS, HIDDEN, 0.0, activation, batch_first=True, norm_first=norm == "pre"
        ),
        ENCODER,
    )


def decoder_pair(norm: str, activation: str) -> tuple[nn.Module, nn.Module, dict[str, str]]:
    return give_same_weights(
        DecoderBlock(WIDTH, HEADS, HIDDEN, norm=norm, activation=activation),
        nn.TransformerDecoderLayer(
            WIDTH, HEADS, HIDDEN, 0.0, activation, batch_first=True, norm_first=norm == "pre"
        ),
        DECODER,
    )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(("norm", "activation"), VARIANTS)
def test_encoder_block_equals_torchs_forward_and_backward(norm, activation, padded, causal):
    ours, theirs, pairs = encoder_pair(norm, activation)
    x = torch.randn(2, 5, WIDTH)
    y = x.clone()
    out = ours(x.requires_grad_(), mask=SOURCE[:, None, None] if padded else None, causal=causal)
    expected = theirs(
        y.requires_grad_(),
        src_mask=torch.ones(5, 5, dtype=torch.bool).triu(1) if causal else None,
        src_key_padding_mask=~SOURCE if padded else None,
    )
    assert out.shape == x.shape
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
    assert_same_gradients(ours, theirs, pairs, (out, expected))
    torch.testing.assert_close(x.grad, y.grad, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(("norm", "activation"), VARIANTS)
def test_decoder_block_equals_torchs_forward_and_backward(norm, activation, padded):
    ours, theirs, pairs = decoder_pair(norm, activation)
    x, memory = torch.randn(2, 4, WIDTH), torch.randn(2, 5, WIDTH)
    y, same_memory = x.clone(), memory.clone()
    out = ours(
        x.requires_grad_(),
        memory.requires_grad_(),
        memory_mask=SOURCE[:, None, None] if padded else None,
    )
    expected = theirs(
        y.requires_grad_(),
        same_memory.requires_grad_(),
        tgt_mask=torch.ones(4, 4, dtype=torch.bool).triu(1),
        memory_key_padding_mask=~SOURCE if padded else None,
    )
    assert out.shape == x.shape
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
    assert_same_gradients(ours, theirs, pairs, (out, expected))
    torch.testing.assert_close(x.grad, y.grad, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(memory.grad, same_memory.grad, atol=1e-4, rtol=1e-4)


def test_the_comparison_detects_the_wrong_norm_placement():
    x = torch.linspace(-1, 1, 2 * 5 * WIDTH).reshape(2, 5, WIDTH)
    (pre, _, _), (post, _, _) = encoder_pair("pre", "relu"), encoder_pair("post", "relu")
    assert not torch.allclose(pre(x), post(x), atol=0.1)


@pytest.mark.parametrize("pieces", [(1,) * 6, (3, 1, 2)])
@pytest.mark.parametrize("norm", ["pre", "post"])
@torch.no_grad()
def test_a_cached_encoder_block_equals_one_pass(norm, pieces, fill, waves):
    block = fill(EncoderBlock(WIDTH, HEADS, HIDDEN, norm=norm))
    x, cache = waves(2, 6, WIDTH), KeyValueCache()
    parts = [block(part, causal=True, cache=cache) for part in x.split(pieces, dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), block(x, causal=True), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("norm", ["pre", "post"])
@torch.no_grad()
def test_a_cached_decoder_block_reads_the_memory_once(norm, fill, waves):
    block = fill(DecoderBlock(WIDTH, HEADS, HIDDEN, norm=norm))
    x, memory, mask = waves(2, 6, WIDTH), waves(2, 5, WIDTH, start=222), SOURCE[:, None, None]
    expected = block(x, memory, memory_mask=mask)
    cache, memory_cache, parts = KeyValueCache(), KeyValueCache(), []
    for part in x.split(1, dim=1):
        parts.append(block(part, memory, memory_mask=mask, cache=cache, memory_cache=memory_cache))
        memory = torch.full_like(memory, torch.nan)  # it must not be read again
    torch.testing.assert_close(torch.cat(parts, dim=1), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_dropout_drops_every_sublayer_in_training_only(norm, fill, waves):
    x, memory = waves(2, 4, WIDTH), waves(2, 5, WIDTH, start=222)
    for kind, inputs in ((EncoderBlock, (x,)), (DecoderBlock, (x, memory))):
        block = fill(kind(WIDTH, HEADS, HIDDEN, norm=norm, dropout=1.0))
        expected = x  # with all sublayers dropped, the residual path is left
        if norm == "post":
            for name, child in block.named_children():
                expected = child.norm(expected) if name.endswith("_residual") else expected
        torch.testing.assert_close(block(*inputs), expected)
        undropped = fill(kind(WIDTH, HEADS, HIDDEN, norm=norm))
        torch.testing.assert_close(block.eval()(*inputs), undropped(*inputs))


def test_activation_dropout_is_independent_of_dropout(fill, waves):
    inputs = waves(2, 4, WIDTH), waves(2, 5, WIDTH, start=222)
    for kind in (EncoderBlock, DecoderBlock):
        arguments = inputs[: 1 if kind is EncoderBlock else 2]
        undropped = fill(kind(WIDTH, HEADS, HIDDEN))
        kept = fill(kind(WIDTH, HEADS, HIDDEN, dropout=1.0, activation_dropout=0.0))
        torch.testing.assert_close(
            kept.feed_forward(arguments[0]), undropped.feed_forward(arguments[0])
        )
        dropped = fill(kind(WIDTH, HEADS, HIDDEN, activation_dropout=1.0))
        bias = dropped.feed_forward.outer.bias.expand_as(arguments[0])
        torch.testing.assert_close(dropped.feed_forward(arguments[0]), bias)
        torch.testing.assert_close(dropped.eval()(*arguments), undropped(*arguments))


def test_encoder_and_decoder_blocks_share_their_constructor():
    options = {"norm": "post", "activation": "gelu", "kv_heads": 1, "rotary": True}
    encoder, decoder = (
        kind(WIDTH, HEADS, HIDDEN, **options) for kind in (EncoderBlock, DecoderBlock)
    )
    assert isinstance(encoder, TransformerBlock)
    assert set(dict(encoder.named_parameters())) < set(dict(decoder.named_parameters()))
    assert decoder.cross_attention.kv_heads == decoder.attention.kv_heads == 1
    assert decoder.cross_attention.rotary is None


def test_taps_have_the_names_of_the_sublayers(waves):
    block = DecoderBlock(WIDTH, HEADS, HIDDEN)
    with Trace() as trace:
        block(waves(2, 4, WIDTH), waves(2, 5, WIDTH))
    assert trace["attention.weights"].shape == (2, HEADS, 4, 4)
    assert trace["cross_attention.weights"].shape == (2, HEADS, 4, 5)
    assert trace["feed_forward.activated"].shape == (2, 4, HIDDEN)
    assert trace["cross_attention_residual.norm.mean"].shape == (2, 4, 1)


@pytest.mark.parametrize(
    ("kind", "norm", "expected"),
    [
        (EncoderBlock, "pre", [[0.216458, 2.995923, 0.136288], [-0.287432, 2.479722, -0.846945]]),
        (EncoderBlock, "post", [[-0.110943, 0.407551, 2.304799], [-0.139402, 0.298833, 2.352597]]),
        (DecoderBlock, "pre", [[-3.4725, 2.294673, -0.011833], [-4.011103, 1.734234, -0.892778]]),
        (
            DecoderBlock,
            "post",
            [[-0.63186, -0.692493, -0.029867], [-0.632912, -0.683514, -0.034226]],
        ),
    ],
)
def test_block_snapshot(kind, norm, expected, fill):
    x = torch.tensor([[[1.0, 0.0, 2.0], [0.5, -0.5, 1.0]]])
    memory = torch.tensor([[[0.3, 0.7, -1.0], [1.0, -1.0, 0.0]]])
    inputs = (x,) if kind is EncoderBlock else (x, memory)
    out = fill(kind(3, 1, 2, norm=norm))(*inputs)
    torch.testing.assert_close(out, torch.tensor([expected]), atol=1e-5, rtol=0)


@pytest.mark.usefixtures("without_shape_checks")
def test_an_unknown_norm_placement_is_refused():
    with pytest.raises(UserError, match="norm 'before': expected one of pre, post"):
        EncoderBlock(WIDTH, HEADS, HIDDEN, norm="before")


def test_blocks_refuse_another_width(waves):
    for block in (
        EncoderBlock(WIDTH, HEADS, HIDDEN),
        EncoderBlock(WIDTH, HEADS, HIDDEN, norm="post"),
    ):
        with pytest.raises(UserError, match="expected vectors of width 8, got 6"):
            block(waves(2, 3, 6))


def test_rms_norm_equals_torchs_forward_and_backward(fill, waves):
    ours, theirs = fill(RMSNorm(6, eps=0.01)), nn.RMSNorm(6, eps=0.01)
    theirs.weight.data = ours.gamma.data.clone()
    x, y = waves(2, 3, 6).requires_grad_(), waves(2, 3, 6).requires_grad_()
    torch.testing.assert_close(ours(x), theirs(y))
    with Trace() as trace:
        traced = ours(x)
    torch.testing.assert_close(traced, theirs(y))
    assert set(trace) == {"mean_square", "normalised"}
    traced.square().sum().backward()
    theirs(y).square().sum().backward()
    torch.testing.assert_close(x.grad, y.grad)


def test_a_gated_layer_is_the_formula(fill, waves):
    layer = fill(FeedForward(4, 6, activation="silu", gated=True, bias=False))
    x = waves(1, 3, 4)
    gate, hidden = x @ layer.gate.weight.T, x @ layer.inner.weight.T
    expected = (gate * torch.sigmoid(gate) * hidden) @ layer.outer.weight.T
    with Trace() as trace:
        torch.testing.assert_close(layer(x), expected)
    assert set(trace) == {"hidden", "gate", "activated"}
    torch.testing.assert_close(trace["hidden"], hidden)


def test_a_parallel_block_adds_both_sublayers_to_its_input(fill, waves):
    block = fill(EncoderBlock(8, 2, 12, parallel_residual=True))
    x = waves(1, 3, 8)
    attended = block.attention(block.attention_residual.norm(x))
    fed = block.feed_forward(block.feed_forward_residual.norm(x))
    torch.testing.assert_close(block(x), x + attended + fed)
    with pytest.raises(UserError, match="expected norm 'pre'"):
        EncoderBlock(8, 2, 12, norm="post", parallel_residual=True)
