"""A block of a decoder gives the numbers of torch's TransformerDecoderLayer."""

from typing import Any

import numpy as np
import pytest
import torch

from workings import Problem, UserError


def draw_block(seed: int, d: int = 4, h: int = 3) -> dict[str, Any]:
    """Return the givens of a block with every weight, bias and norm."""
    rng = np.random.default_rng(seed)
    given: dict[str, Any] = {"X": rng.normal(size=(3, d)), "context": rng.normal(size=(2, d))}
    for part in ("self_attention", "cross_attention"):
        given[part] = {f"W_{n}": rng.normal(size=(d, d)) for n in "QKVO"}
        given[part] |= {f"b_{n}": rng.normal(size=(1, d)) for n in "QKVO"}
    given |= {"W_1": rng.normal(size=(d, h)), "b_1": rng.normal(size=(1, h))}
    given |= {"W_2": rng.normal(size=(h, d)), "b_2": rng.normal(size=(1, d))}
    norms = [f"{name}_{k}" for name in ("gamma", "beta") for k in (1, 2, 3)]
    return given | {name: rng.normal(size=(1, d)) for name in norms}


def to_layer(given: dict[str, Any], order: str) -> torch.nn.TransformerDecoderLayer:
    d, h = given["W_1"].shape
    layer = torch.nn.TransformerDecoderLayer(
        d, 2, h, dropout=0, batch_first=True, norm_first=order == "pre", dtype=torch.float64
    )
    attentions = {"self_attention": layer.self_attn, "cross_attention": layer.multihead_attn}
    with torch.no_grad():
        for part, attention in attentions.items():
            own = {name: torch.from_numpy(matrix) for name, matrix in given[part].items()}
            attention.in_proj_weight.copy_(torch.cat([own[f"W_{n}"].T for n in "QKV"]))
            attention.in_proj_bias.copy_(torch.cat([own[f"b_{n}"][0] for n in "QKV"]))
            attention.out_proj.weight.copy_(own["W_O"].T)
            attention.out_proj.bias.copy_(own["b_O"][0])
        for linear, which in ((layer.linear1, 1), (layer.linear2, 2)):
            linear.weight.copy_(torch.from_numpy(given[f"W_{which}"].T))
            linear.bias.copy_(torch.from_numpy(given[f"b_{which}"][0]))
        for k, norm in enumerate((layer.norm1, layer.norm2, layer.norm3), start=1):
            norm.weight.copy_(torch.from_numpy(given[f"gamma_{k}"][0]))
            norm.bias.copy_(torch.from_numpy(given[f"beta_{k}"][0]))
    return layer.eval()


def transpose(value: Any) -> Any:
    return {k: transpose(v) for k, v in value.items()} if isinstance(value, dict) else value.T


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("order", ["pre", "post"])
def test_decoder_block_equals_torch(order: str, columns: bool) -> None:
    given = draw_block(3)
    written = transpose(given) if columns else given
    vectors = "columns" if columns else "rows"
    settings = {"heads": 2, "order": order, "eps": 1e-5, "vectors": vectors}
    solution = Problem(kind="decoder_block", given=written, **settings).solve()
    got = solution["norm_3.output" if order == "post" else "add_3"]
    x, context = (torch.from_numpy(given[name])[None] for name in ("X", "context"))
    mask = torch.nn.Transformer.generate_square_subsequent_mask(3, dtype=torch.float64)
    expected = to_layer(given, order)(x, context, tgt_mask=mask)[0].detach().numpy()
    np.testing.assert_allclose(got.T if columns else got, expected, rtol=1e-12, atol=1e-12)


def test_rms_norms_in_both_blocks() -> None:
    given = {k: v for k, v in draw_block(4).items() if not k.startswith("beta")}
    decoder = Problem(kind="decoder_block", given=given, norm="rms", order="pre").solve()
    x = given["X"]
    expected = x / np.sqrt((x**2).mean(1, keepdims=True)) * given["gamma_1"]
    np.testing.assert_allclose(decoder["norm_1.output"], expected)
    block = {name: given[name] for name in ("X", "W_1", "W_2", "gamma_1")}
    encoder = Problem(kind="block", given=block, norm="rms", order="pre").solve()
    np.testing.assert_allclose(encoder["norm_1.output"], expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"context": None}, "given.context is missing"),
        ({"norm": "rms"}, 'beta_1 is given, but norm = "rms"'),
        ({"self_attention": {"W_Q": np.eye(3)}}, "self_attention.W_Q has 3 rows, but X has 4"),
        ({"self_attention": {"W_X": np.eye(4)}}, "given.self_attention.W_X: no such given"),
        ({"cross_attention": {"W_O": np.eye(4)[:2]}}, "it must be"),
    ],
)
def test_bad_decoder_block_is_refused(change: dict[str, Any], message: str) -> None:
    given = {k: v for k, v in {**draw_block(0), **change}.items() if v is not None}
    with pytest.raises(UserError) as error:
        Problem(kind="decoder_block", given=given)
    assert message in str(error.value)
