"""`tap` and `Trace`: what a model computes, filed by where it was computed."""

import contextvars

import pytest
import torch
from torch import Tensor, nn

from workings.attention import attend
from workings.errors import UserError
from workings.layers import EncoderBlock, MultiHeadAttention
from workings.trace import Trace, _active_traces, is_tapped, tap


class Encoder(nn.Module):
    """Three blocks, named as models name them."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(EncoderBlock(8, 2, 16) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return tap("encoded", x)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.RNNCell(4, 8)

    def forward(self, x: Tensor) -> Tensor:
        state = x.new_zeros(x.shape[0], 8)
        for step in x.unbind(1):
            state = tap("state", self.cell(step, state))
        return state


@pytest.fixture
def model() -> Encoder:
    torch.manual_seed(0)
    return Encoder()


@pytest.fixture
def x() -> Tensor:
    return torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))


# -- paths ---------------------------------------------------------------------------------------


def test_paths_are_the_modules_and_the_tap(model: Encoder, x: Tensor) -> None:
    with Trace() as trace:
        output = model(x)
    assert trace["blocks.2.attention.weights"].shape == (2, 2, 5, 5)
    assert trace["encoded"] is output
    assert "blocks.0.feed_forward.hidden" in trace
    assert "blocks.3.attention.weights" not in trace
    assert len(trace) == len(list(trace)) > 30


def test_only_keeps_what_matches(model: Encoder, x: Tensor) -> None:
    with Trace(only="blocks.*.attention.weights") as trace:
        model(x)
    assert list(trace) == [f"blocks.{i}.attention.weights" for i in range(3)]
    with Trace(only=["encoded", "blocks.1.*.mixed"]) as trace:
        model(x)
    assert list(trace) == ["blocks.1.attention.mixed", "encoded"]


def test_matching_reads_several(model: Encoder, x: Tensor) -> None:
    with Trace() as trace:
        model(x)
    weights = trace.matching("*.weights")
    assert set(weights) == {f"blocks.{i}.attention.weights" for i in range(3)}
    assert all(w is trace[path] for path, w in weights.items())


def test_a_trace_that_wants_no_weights_leaves_the_fused_path_alone(
    model: Encoder, x: Tensor
) -> None:
    with Trace(only=["*.mixed", "blocks.1.*.weights"]):
        assert not is_tapped("weights")  # outside of blocks.1

        class Asks(nn.Module):
            def forward(self) -> bool:
                return is_tapped("scores", "weights")

        model.blocks[0].attention, model.blocks[1].attention = Asks(), Asks()
        model.forward = lambda: [block.attention() for block in model.blocks[:2]]
        assert model() == [False, True]


def test_a_submodule_called_on_its_own_keeps_its_path_in_the_model(
    model: Encoder, x: Tensor
) -> None:
    with Trace(model, only="*.weights") as trace:
        model.blocks[1](x)
        model.blocks[2].attention(x)
    assert list(trace) == ["blocks.1.attention.weights", "blocks.2.attention.weights"]
    with Trace(only="*weights") as trace:  # where no model is given, what is called first is it
        model.blocks[1](x)
        model.blocks[2].attention(x)
    assert list(trace) == ["attention.weights", "weights"]


def test_a_module_that_is_not_part_of_the_model_goes_by_its_class(
    model: Encoder, x: Tensor
) -> None:
    with Trace(model, only="*.weights") as trace:
        MultiHeadAttention(8, 2)(x)
    assert list(trace) == ["MultiHeadAttention.weights"]


def test_a_tap_outside_of_any_module_goes_by_its_name() -> None:
    with Trace() as trace:
        tap("one", torch.ones(2))
    assert torch.equal(trace["one"], torch.ones(2))


def test_one_trace_may_be_opened_again_and_goes_on(model: Encoder, x: Tensor) -> None:
    trace = Trace(model, only="encoded")
    for _ in range(3):
        with trace:
            model(x)
    assert trace["encoded"].shape == (3, 2, 5, 8)
    with trace, pytest.raises(RuntimeError, match="open already"):
        trace.__enter__()


# -- time steps ----------------------------------------------------------------------------------


def test_a_loop_gives_an_entry_a_time_step(x: Tensor) -> None:
    model = Recurrent()
    with Trace() as trace:
        last = model(x[..., :4])
    assert len(trace.steps("state")) == 5
    assert trace["state"].shape == (5, 2, 8)  # [time, batch, width]
    assert torch.equal(trace["state"][-1], last)
    state = torch.zeros(2, 8)
    for i, step in enumerate(trace.steps("state")):
        state = model.cell(x[:, i, :4], state)
        assert torch.equal(step, state)


def test_steps_of_different_shapes_are_read_as_a_list() -> None:
    with Trace() as trace:
        tap("weights", torch.ones(1, 2))
        tap("weights", torch.ones(1, 3))
    with pytest.raises(
        ValueError, match=r"2 times in different shapes .* trace.steps\('weights'\)"
    ):
        trace["weights"]
    assert [w.shape[-1] for w in trace.steps("weights")] == [2, 3]


def test_an_unknown_path_suggests_the_nearest(model: Encoder, x: Tensor) -> None:
    with Trace() as trace:
        model(x)
    with pytest.raises(KeyError, match=r"did you mean 'blocks.2.attention.weights'\?"):
        trace["blocks.2.atention.wieghts"]
    with pytest.raises(KeyError, match="the trace is empty"):
        Trace()["weights"]


# -- gradients -----------------------------------------------------------------------------------


def test_tracing_changes_neither_outputs_nor_gradients(model: Encoder, x: Tensor) -> None:
    plain = model(x)
    plain.square().sum().backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    with Trace():
        traced = model(x)
    traced.square().sum().backward()
    torch.testing.assert_close(traced, plain)
    torch.testing.assert_close([p.grad for p in model.parameters()], expected, rtol=1e-4, atol=1e-4)


def test_gradients_go_through_what_is_traced(model: Encoder, x: Tensor) -> None:
    with Trace(only="blocks.1.attention.weights") as trace:
        loss = model(x).square().sum()
    weights = trace["blocks.1.attention.weights"]
    weights.retain_grad()
    loss.backward()
    assert weights.grad is not None

    # The gradient is the loss's change: push one weight, and see.
    push = torch.zeros_like(weights)
    push[0, 1, 2, 3] = 1e-3
    change = {"blocks.1.attention.weights": lambda w: w + push}
    with Trace(replace=change), torch.no_grad():
        pushed = model(x).square().sum()
    assert ((pushed - loss) / 1e-3).item() == pytest.approx(
        weights.grad[0, 1, 2, 3].item(), rel=0.05
    )


def test_under_no_grad(model: Encoder, x: Tensor) -> None:
    with torch.no_grad(), Trace() as trace:
        model(x)
    assert not trace["blocks.0.attention.weights"].requires_grad


# -- changing ------------------------------------------------------------------------------------


def test_replace_by_a_tensor_or_a_function(model: Encoder, x: Tensor) -> None:
    path = "blocks.2.attention.mixed"
    zeros = torch.zeros(2, 2, 5, 4, dtype=torch.float64)  # taken in the model's own precision
    with Trace(only=path, replace={path: zeros}) as by_tensor:
        one = model(x)
    with Trace(only=path, replace={path: torch.zeros_like}) as by_function:
        other = model(x)
    assert (by_tensor[path] == 0).all()
    assert (by_function[path] == 0).all()
    assert torch.equal(one, other)
    assert one.dtype == torch.float32
    assert not torch.allclose(one, model(x))


def test_replacing_weights_reaches_the_output(model: Encoder, x: Tensor) -> None:
    attention = model.blocks[0].attention
    alike = {"weights": lambda w: torch.full_like(w, 1 / w.shape[-1])}
    with Trace(only=["value", "mixed"], replace=alike) as trace:  # changed, and not kept
        attention(x)
    value = trace["value"]
    torch.testing.assert_close(trace["mixed"], value.mean(-2, keepdim=True).expand_as(value))


def test_a_head_switched_off_is_a_head_whose_output_weights_are_zero(
    model: Encoder, x: Tensor
) -> None:
    off = torch.tensor([1.0, 0.0], dtype=torch.float64)[:, None, None]  # [heads, 1, 1]
    with Trace(scale={"blocks.1.attention.mixed": off}):
        scaled = model(x)
    assert not torch.allclose(scaled, model(x))
    with torch.no_grad():
        model.blocks[1].attention.output.weight[:, 4:] = 0
    torch.testing.assert_close(scaled, model(x))
    assert scaled.dtype == torch.float32


@pytest.mark.parametrize(
    ("change", "got"),
    [(torch.zeros(2, 2, 5), r"\(2, 2, 5\)"), (lambda w: w[..., :1], r"\(2, 2, 5, 1\)")],
)
def test_a_replacement_of_another_shape_is_refused(
    model: Encoder, x: Tensor, change: object, got: str
) -> None:
    expected = rf"'blocks.0.attention.weights' has shape \(2, 2, 5, 5\), its replacement {got}$"
    with (
        pytest.raises(UserError, match=expected),
        Trace(replace={"blocks.0.*.weights": change}),
    ):
        model(x)


def test_a_replacement_that_forgets_to_return(model: Encoder, x: Tensor) -> None:
    with (
        pytest.raises(
            UserError, match=r"'encoded' has shape \(2, 5, 8\), its replacement NoneType"
        ),
        Trace(replace={"encoded": lambda _: None}),
    ):
        model(x)


def test_scores_hidden_by_a_trace_have_no_weight() -> None:
    x = torch.randn(3, 4)
    for path in ("scores", "scaled", "masked"):
        with Trace(replace={path: lambda s: torch.full_like(s, -torch.inf)}):
            assert not attend(x, x, x).any()


def test_a_trace_closed_in_another_context_keeps_nothing_more() -> None:
    first = Trace()
    contextvars.copy_context().run(first.__enter__)
    here = contextvars.copy_context()
    here.run(_active_traces.set, (first,))
    first.__exit__(None, None, None)

    def go_on() -> None:
        with Trace():
            tap("late", torch.ones(1))

    here.run(go_on)
    assert "late" not in first
