"""A linear layer with oneDNN's matrix products on a CPU.

torch multiplies matrices with MKL, which does not use AVX-512 on AMD's processors: there oneDNN is
twice as fast. On Intel's both take the same time.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

MIN_PRODUCTS = 2**21  # multiplications: calls take as long as smaller products
MIN_ROWS = 32
_HAS_ONEDNN: bool = torch.backends.mkldnn.is_available() and hasattr(  # type: ignore[no-untyped-call]
    torch.ops.mkldnn, "_linear_pointwise"
)


class Linear(nn.Linear):
    """torch's linear layer; large products on a CPU are oneDNN's.

    With gradients they are torch's in `eval`, so that there are all derivatives.

    >>> Linear(4, 3)(torch.ones(2, 5, 4)).shape
    torch.Size([2, 5, 3])
    """

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch out"]:
        """Return `x Wᵀ + b`."""
        return apply_linear(x, self.weight, self.bias, training=self.training)


def apply_linear(x: Tensor, weight: Tensor, bias: Tensor | None, *, training: bool) -> Tensor:
    """Return `x Wᵀ + b`; in training, gradients can be computed once."""
    if not torch.is_grad_enabled():
        return multiply(x, weight, bias)
    if training and _can_use_onednn(x, weight):
        product: Tensor = _Product.apply(x, weight, bias)  # type: ignore[no-untyped-call]
        return product
    return F.linear(x, weight, bias)


def multiply(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return `x Wᵀ + b` without a gradient.

    >>> multiply(torch.ones(2, 3), torch.eye(3)).shape
    torch.Size([2, 3])
    """
    product: Tensor
    if _can_use_onednn(x, weight):
        product = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    else:
        product = F.linear(x, weight, bias)
    return product


def _can_use_onednn(x: Tensor, weight: Tensor) -> bool:
    return (
        _HAS_ONEDNN
        and not torch.compiler.is_compiling()  # first: an exported graph has any size
        and not torch.compiler.is_exporting()
        and x.is_cpu
        and x.dtype == weight.dtype == torch.float32
        and x.numel() * weight.size(0) >= MIN_PRODUCTS
        and x.numel() >= MIN_ROWS * weight.size(1)
        and type(weight) in (Tensor, nn.Parameter)  # not sharded
        and not torch.is_autocast_enabled("cpu")
    )


class _Product(torch.autograd.Function):
    """`x Wᵀ + b` and its gradients as products of oneDNN."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return multiply(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        for_x, for_weight, for_bias = ctx.needs_input_grad
        rows, inputs = grad.reshape(-1, grad.shape[-1]), x.reshape(-1, x.shape[-1])
        return (
            multiply(grad, weight.t()) if for_x else None,
            multiply(rows.t(), inputs.t()) if for_weight else None,
            rows.sum(0) if for_bias else None,
        )
