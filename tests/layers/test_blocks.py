import pytest
import torch
from torch import Tensor, nn

from workings import Trace, UserError
from workings.layers import DecoderBlock, EncoderBlock, KeyValueCache

WIDTH, HEADS, HIDDEN = 8, 2, 12
SOURCE = torch.tensor([[True] * 5, [True, True, True, False, False]])  # false at padding
SHAPES = [(norm, activation) for norm in ("pre", "post") for activation in ("relu", "gelu")]

# Where torch's blocks keep what ours keep: (ours, theirs).
ATTENTION = [
    ("qkv.weight", "in_proj_weight"),
    ("qkv.bias", "in_proj_bias"),
    ("output.weight", "out_proj.weight"),
    ("output.bias", "out_proj.bias"),
]
LINEARS = [("feed_forward.inner", "linear1"), ("feed_forward.outer", "linear2")]


def names(attentions: dict[str, str], norms: list[str]) -> dict[str, str]:
    """Pair the parameter names of a block of ours with those of torch's."""
    pairs = {
        f"{ours}.{a}": f"{theirs}.{b}" for ours, theirs in attentions.items() for a, b in ATTENTION
    }
    pairs |= {f"{a}.{kind}": f"{b}.{kind}" for a, b in LINEARS for kind in ("weight", "bias")}
    for number, place in enumerate(norms, start=1):
        pairs[f"{place}.norm.gamma"] = f"norm{number}.weight"
        pairs[f"{place}.norm.beta"] = f"norm{number}.bias"
    return pairs


ENCODER = names({"attention": "self_attn"}, ["attention_residual", "feed_forward_residual"])
DECODER = names(
    {"attention": "self_attn", "cross_attention": "multihead_attn"},
    ["attention_residual", "cross_attention_residual", "feed_forward_residual"],
)


def twins(
    ours: nn.Module, theirs: nn.Module, pairs: dict[str, str]
) -> tuple[nn.Module, nn.Module, dict[str, str]]:
    """Give both the same random weights: no bias zero, no gamma one, so that each one matters."""
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


def encoder_twins(norm: str, activation: str) -> tuple[nn.Module, nn.Module, dict[str, str]]:
    return twins(
        EncoderBlock(WIDTH, HEADS, HIDDEN, norm=norm, activation=activation),
        nn.TransformerEncoderLayer(
            WIDTH, HEADS, HIDDEN, 0.0, activation, batch_first=True, norm_first=norm == "pre"
        ),
        ENCODER,
    )


def decoder_twins(norm: str, activation: str) -> tuple[nn.Module, nn.Module, dict[str, str]]:
    return twins(
        DecoderBlock(WIDTH, HEADS, HIDDEN, norm=norm, activation=activation),
        nn.TransformerDecoderLayer(
            WIDTH, HEADS, HIDDEN, 0.0, activation, batch_first=True, norm_first=norm == "pre"
        ),
        DECODER,
    )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(("norm", "activation"), SHAPES)
def test_the_encoder_block_is_torchs_forward_and_backward(norm, activation, padded, causal):
    ours, theirs, pairs = encoder_twins(norm, activation)
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
@pytest.mark.parametrize(("norm", "activation"), SHAPES)
def test_the_decoder_block_is_torchs_forward_and_backward(norm, activation, padded):
    ours, theirs, pairs = decoder_twins(norm, activation)
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


def test_the_comparison_notices_a_norm_in_the_other_place():
    x = torch.linspace(-1, 1, 2 * 5 * WIDTH).reshape(2, 5, WIDTH)
    (pre, _, _), (post, _, _) = encoder_twins("pre", "relu"), encoder_twins("post", "relu")
    assert not torch.allclose(pre(x), post(x), atol=0.1)


@pytest.mark.parametrize("pieces", [(1,) * 6, (3, 1, 2)])
@pytest.mark.parametrize("norm", ["pre", "post"])
@torch.no_grad()
def test_a_cached_encoder_block_goes_token_by_token(norm, pieces, fill, waves):
    block = fill(EncoderBlock(WIDTH, HEADS, HIDDEN, norm=norm))
    x, cache = waves(2, 6, WIDTH), KeyValueCache()
    parts = [block(part, causal=True, cache=cache) for part in x.split(pieces, dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), block(x, causal=True), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("norm", ["pre", "post"])
@torch.no_grad()
def test_a_cached_decoder_block_goes_token_by_token_and_reads_the_memory_once(norm, fill, waves):
    block = fill(DecoderBlock(WIDTH, HEADS, HIDDEN, norm=norm))
    x, memory, mask = waves(2, 6, WIDTH), waves(2, 5, WIDTH, start=222), SOURCE[:, None, None]
    whole = block(x, memory, memory_mask=mask)
    cache, memory_cache, parts = KeyValueCache(), KeyValueCache(), []
    for part in x.split(1, dim=1):
        parts.append(block(part, memory, memory_mask=mask, cache=cache, memory_cache=memory_cache))
        memory = torch.full_like(memory, torch.nan)  # nobody may look at it again
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_dropout_drops_every_sublayer_while_training_and_none_afterwards(norm, fill, waves):
    x, memory = waves(2, 4, WIDTH), waves(2, 5, WIDTH, start=222)
    for kind, inputs in ((EncoderBlock, (x,)), (DecoderBlock, (x, memory))):
        block = fill(kind(WIDTH, HEADS, HIDDEN, norm=norm, dropout=1.0))
        alone = x  # what is left of a block whose sublayers are all dropped
        if norm == "post":
            for name, child in block.named_children():
                alone = child.norm(alone) if name.endswith("_residual") else alone
        torch.testing.assert_close(block(*inputs), alone)
        undropped = fill(kind(WIDTH, HEADS, HIDDEN, norm=norm))
        torch.testing.assert_close(block.eval()(*inputs), undropped(*inputs))


def test_hidden_features_have_a_share_to_drop_of_their_own(fill, waves):
    inputs = waves(2, 4, WIDTH), waves(2, 5, WIDTH, start=222)
    for kind in (EncoderBlock, DecoderBlock):
        given = inputs[: 1 if kind is EncoderBlock else 2]
        undropped = fill(kind(WIDTH, HEADS, HIDDEN))
        none = fill(kind(WIDTH, HEADS, HIDDEN, dropout=1.0, activation_dropout=0.0))
        torch.testing.assert_close(none.feed_forward(given[0]), undropped.feed_forward(given[0]))
        every = fill(kind(WIDTH, HEADS, HIDDEN, activation_dropout=1.0))
        bare = every.feed_forward.outer.bias.expand_as(given[0])
        torch.testing.assert_close(every.feed_forward(given[0]), bare)
        torch.testing.assert_close(every.eval()(*given), undropped(*given))


def test_taps_are_found_under_the_names_of_the_parts(waves):
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
def test_snapshot(kind, norm, expected, fill):
    x = torch.tensor([[[1.0, 0.0, 2.0], [0.5, -0.5, 1.0]]])
    memory = torch.tensor([[[0.3, 0.7, -1.0], [1.0, -1.0, 0.0]]])
    inputs = (x,) if kind is EncoderBlock else (x, memory)
    out = fill(kind(3, 1, 2, norm=norm))(*inputs)
    torch.testing.assert_close(out, torch.tensor([expected]), atol=1e-5, rtol=0)


@pytest.mark.usefixtures("without_shape_checks")
def test_an_unknown_place_for_the_norm_is_refused():
    with pytest.raises(UserError, match="norm 'before': expected one of pre, post"):
        EncoderBlock(WIDTH, HEADS, HIDDEN, norm="before")


def test_another_width_is_refused(waves):
    for block in (
        EncoderBlock(WIDTH, HEADS, HIDDEN),
        EncoderBlock(WIDTH, HEADS, HIDDEN, norm="post"),
    ):
        with pytest.raises(UserError, match="expected vectors of width 8, got 6"):
            block(waves(2, 3, 6))
