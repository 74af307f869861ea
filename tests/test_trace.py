"""`tap` and `Trace`: paths, steps, gradients, interventions, nesting, threads, compiled code."""

import contextvars
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks

import workings.trace
from workings.attention import attend
from workings.errors import UserError
from workings.layers import EncoderBlock, MultiHeadAttention
from workings.trace import Trace, _active_traces, is_tapped, is_tracing, tap

WEIGHTS = ["0.attention.weights", "1.attention.weights"]


class Encoder(nn.Module):
    """Three blocks under the name that models use."""

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


class Fails(nn.Module):
    def __init__(self, error: type[BaseException] = ArithmeticError) -> None:
        super().__init__()
        self.error = error

    def forward(self, _: Tensor) -> Tensor:
        raise self.error("inside forward")


def make_model(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(EncoderBlock(8, 2, 16), EncoderBlock(8, 2, 16))


@pytest.fixture
def blocks() -> nn.Module:
    return make_model()


@pytest.fixture(autouse=True)
def _no_trace_is_left_open() -> Iterator[None]:
    yield
    assert workings.trace._num_open == 0
    assert workings.trace._active_traces.get() == ()
    assert workings.trace._forward_pre_hook not in hooks._global_forward_pre_hooks.values()
    assert workings.trace._forward_hook not in hooks._global_forward_hooks.values()
    assert not is_tapped("anything")
    assert not is_tracing()


# -- paths -----------------------------------------------------------------------------------------


def test_a_path_is_the_module_path_and_the_tap_name(model: Encoder, x: Tensor) -> None:
    with Trace() as trace:
        output = model(x)
    assert trace["blocks.2.attention.weights"].shape == (2, 2, 5, 5)
    assert trace["encoded"] is output
    assert "blocks.0.feed_forward.hidden" in trace
    assert "blocks.3.attention.weights" not in trace
    assert len(trace) == len(list(trace)) > 30


def test_only_records_matching_paths(model: Encoder, x: Tensor) -> None:
    with Trace(only="blocks.*.attention.weights") as trace:
        model(x)
    assert list(trace) == [f"blocks.{i}.attention.weights" for i in range(3)]
    with Trace(only=["encoded", "blocks.1.*.mixed"]) as trace:
        model(x)
    assert list(trace) == ["blocks.1.attention.mixed", "encoded"]


def test_matching_returns_all_matching_paths(model: Encoder, x: Tensor) -> None:
    with Trace() as trace:
        model(x)
    weights = trace.matching("*.weights")
    assert set(weights) == {f"blocks.{i}.attention.weights" for i in range(3)}
    assert all(w is trace[path] for path, w in weights.items())


def test_is_tapped_depends_on_the_running_module(model: Encoder, x: Tensor) -> None:
    with Trace(only=["*.mixed", "blocks.1.*.weights"]):
        assert not is_tapped("weights")  # outside of blocks.1

        class IsTapped(nn.Module):
            def forward(self) -> bool:
                return is_tapped("scores", "weights")

        model.blocks[0].attention, model.blocks[1].attention = IsTapped(), IsTapped()
        model.forward = lambda: [block.attention() for block in model.blocks[:2]]
        assert model() == [False, True]


def test_a_submodule_called_directly_keeps_its_path_in_the_model(model: Encoder, x: Tensor) -> None:
    with Trace(model, only="*.weights") as trace:
        model.blocks[1](x)
        model.blocks[2].attention(x)
    assert list(trace) == ["blocks.1.attention.weights", "blocks.2.attention.weights"]
    with Trace(only="*weights") as trace:  # without a model, paths start at the called module
        model.blocks[1](x)
        model.blocks[2].attention(x)
    assert list(trace) == ["attention.weights", "weights"]


def test_a_module_outside_of_the_model_is_named_by_its_class(model: Encoder, x: Tensor) -> None:
    with Trace(model, only="*.weights") as trace:
        MultiHeadAttention(8, 2)(x)
    assert list(trace) == ["MultiHeadAttention.weights"]


def test_a_tap_outside_of_any_module_has_no_prefix() -> None:
    with Trace() as trace:
        tap("one", torch.ones(2))
    assert torch.equal(trace["one"], torch.ones(2))


def test_a_reopened_trace_continues_recording(model: Encoder, x: Tensor) -> None:
    trace = Trace(model, only="encoded")
    for _ in range(3):
        with trace:
            model(x)
    assert trace["encoded"].shape == (3, 2, 5, 8)
    with trace, pytest.raises(RuntimeError, match="already open"):
        trace.__enter__()


# -- time steps ------------------------------------------------------------------------------------


def test_a_loop_records_one_entry_per_time_step(x: Tensor) -> None:
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


def test_steps_of_different_shapes_must_be_read_as_a_list() -> None:
    with Trace() as trace:
        tap("weights", torch.ones(1, 2))
        tap("weights", torch.ones(1, 3))
    with pytest.raises(
        ValueError, match=r"2 times in different shapes .* trace.steps\('weights'\)"
    ):
        trace["weights"]
    assert [w.shape[-1] for w in trace.steps("weights")] == [2, 3]


def test_an_unknown_path_suggests_the_closest(model: Encoder, x: Tensor) -> None:
    with Trace() as trace:
        model(x)
    with pytest.raises(KeyError, match=r"did you mean 'blocks.2.attention.weights'\?"):
        trace["blocks.2.atention.wieghts"]
    with pytest.raises(KeyError, match="the trace is empty"):
        Trace()["weights"]


# -- gradients -------------------------------------------------------------------------------------


def test_tracing_changes_neither_outputs_nor_gradients(model: Encoder, x: Tensor) -> None:
    without_trace = model(x)
    without_trace.square().sum().backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    with Trace():
        with_trace = model(x)
    with_trace.square().sum().backward()
    torch.testing.assert_close(with_trace, without_trace)
    torch.testing.assert_close([p.grad for p in model.parameters()], expected, rtol=1e-4, atol=1e-4)


def test_gradients_flow_through_traced_values(model: Encoder, x: Tensor) -> None:
    with Trace(only="blocks.1.attention.weights") as trace:
        loss = model(x).square().sum()
    weights = trace["blocks.1.attention.weights"]
    weights.retain_grad()
    loss.backward()
    assert weights.grad is not None

    # Compare with a finite difference: add a little to one weight.
    push = torch.zeros_like(weights)
    push[0, 1, 2, 3] = 1e-3
    change = {"blocks.1.attention.weights": lambda w: w + push}
    with Trace(replace=change), torch.no_grad():
        pushed = model(x).square().sum()
    assert ((pushed - loss) / 1e-3).item() == pytest.approx(
        weights.grad[0, 1, 2, 3].item(), rel=0.05
    )


def test_values_traced_without_grad_do_not_require_it(model: Encoder, x: Tensor) -> None:
    with torch.no_grad(), Trace() as trace:
        model(x)
    assert not trace["blocks.0.attention.weights"].requires_grad


# -- interventions ---------------------------------------------------------------------------------


def test_replace_with_a_tensor_or_a_function(model: Encoder, x: Tensor) -> None:
    path = "blocks.2.attention.mixed"
    zeros = torch.zeros(2, 2, 5, 4, dtype=torch.float64)  # converted to the model's dtype
    with Trace(only=path, replace={path: zeros}) as by_tensor:
        one = model(x)
    with Trace(only=path, replace={path: torch.zeros_like}) as by_function:
        other = model(x)
    assert (by_tensor[path] == 0).all()
    assert (by_function[path] == 0).all()
    assert torch.equal(one, other)
    assert one.dtype == torch.float32
    assert not torch.allclose(one, model(x))


def test_replaced_weights_change_the_output(model: Encoder, x: Tensor) -> None:
    attention = model.blocks[0].attention
    uniform = {"weights": lambda w: torch.full_like(w, 1 / w.shape[-1])}
    with Trace(only=["value", "mixed"], replace=uniform) as trace:  # changed, but not recorded
        attention(x)
    value = trace["value"]
    torch.testing.assert_close(trace["mixed"], value.mean(-2, keepdim=True).expand_as(value))


def test_scaling_a_head_by_zero_equals_zeroing_its_output_weights(
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


def test_a_replacement_function_that_returns_nothing_is_refused(model: Encoder, x: Tensor) -> None:
    with (
        pytest.raises(
            UserError, match=r"'encoded' has shape \(2, 5, 8\), its replacement NoneType"
        ),
        Trace(replace={"encoded": lambda _: None}),
    ):
        model(x)


def test_scores_replaced_by_minus_infinity_get_no_weight() -> None:
    x = torch.randn(3, 4)
    for path in ("scores", "scaled", "masked"):
        with Trace(replace={path: lambda s: torch.full_like(s, -torch.inf)}):
            assert not attend(x, x, x).any()


def test_a_trace_closed_in_another_context_records_nothing_more() -> None:
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


# -- several traces --------------------------------------------------------------------------------


def test_nested_traces_each_record_their_own_paths(blocks: nn.Module, x: Tensor) -> None:
    with Trace(only="*.weights") as outer:
        blocks(x)
        with Trace(only="0.*.mixed") as inner:
            blocks(x)
        blocks(x)
    assert list(inner) == ["0.attention.mixed"]
    assert len(inner.steps("0.attention.mixed")) == 1
    assert list(outer) == WEIGHTS
    assert len(outer.steps("0.attention.weights")) == 3


def test_the_innermost_trace_intervenes_first_and_all_record_the_result() -> None:
    with (
        Trace(replace={"x": lambda x: x + 1}) as outer,
        Trace(scale={"x": 10.0}) as inner,
    ):
        assert tap("x", torch.tensor(2.0)).item() == 21
    assert outer["x"].item() == inner["x"].item() == 21


def test_a_trace_opened_inside_a_module_starts_its_paths_there(x: Tensor) -> None:
    class TracesItself(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = MultiHeadAttention(8, 2)

        def forward(self, x: Tensor) -> Trace:
            with Trace(self, only="*weights") as trace:
                self.attention(x)
            return trace

    with Trace(only="*weights") as outer:
        inner = nn.Sequential(TracesItself())(x)
        tap("weights", x)
    assert list(inner) == ["attention.weights"]
    assert list(outer) == ["0.attention.weights", "weights"]


def test_a_trace_opened_inside_a_module_may_outlive_the_call(x: Tensor) -> None:
    class Opens(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            stack.enter_context(trace)
            return x

    with Trace(only="*weights") as outer, ExitStack() as stack:
        trace = Trace(only="*weights")
        nn.Sequential(nn.Sequential(Opens()), MultiHeadAttention(8, 2))(x)
    assert list(trace) == ["weights"]
    assert list(outer) == ["1.weights"]


def test_concurrent_traces_record_only_their_own_thread(x: Tensor) -> None:
    models = [make_model(seed) for seed in range(4)]
    untraced = models[0](x)
    expected = []
    for model in models:
        with Trace() as alone:
            model(x)
        expected.append(alone)
    seen: dict[int, Trace] = {}
    barrier = threading.Barrier(5)

    def run(i: int) -> None:
        with Trace() as seen[i]:
            barrier.wait()
            models[i](x)
            barrier.wait()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    barrier.wait()
    torch.testing.assert_close(models[0](x), untraced)  # while all four are open
    barrier.wait()
    for thread in threads:
        thread.join()

    assert not torch.allclose(expected[0][WEIGHTS[1]], expected[1][WEIGHTS[1]], atol=1e-3)
    for i, alone in enumerate(expected):
        assert list(seen[i]) == list(alone)
        for path in alone:
            assert len(seen[i].steps(path)) == 1
            torch.testing.assert_close(seen[i][path], alone[path])


def test_traces_may_be_closed_in_any_order() -> None:
    first, second = Trace(), Trace()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    tap("x", torch.ones(1))
    second.__exit__(None, None, None)
    assert "x" not in first
    assert "x" in second


# -- exceptions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ArithmeticError, KeyboardInterrupt])
def test_an_exception_inside_forward_leaves_no_open_trace(
    blocks: nn.Module, x: Tensor, error: type[BaseException]
) -> None:
    trace = Trace(only="*.weights")
    with pytest.raises(error), trace:
        nn.Sequential(MultiHeadAttention(8, 2), nn.Sequential(Fails(error)))(x)
    with trace:
        blocks(x)
    assert list(trace) == ["0.weights", *WEIGHTS]


def test_paths_are_right_after_a_caught_exception(blocks: nn.Module, x: Tensor) -> None:
    class Careful(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.risky = nn.Sequential(Fails())
            self.attention = MultiHeadAttention(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            try:
                return self.risky(x)
            except ArithmeticError:
                return self.attention(x)

    with Trace(only="*weights") as trace:
        nn.Sequential(Careful())(x)
        with pytest.raises(ArithmeticError):
            Fails()(x)
        blocks(x)
    assert len(trace.steps("0.attention.weights")) == 2
    assert list(trace) == WEIGHTS


# -- compiled models -------------------------------------------------------------------------------


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
def test_a_compiled_model_is_traced_by_running_the_original(x: Tensor) -> None:
    graphs = []

    def count(graph: torch.fx.GraphModule, _inputs: object) -> object:
        graphs.append(graph)
        return graph.forward

    model = nn.Sequential(MultiHeadAttention(8, 2))
    compiled = torch.compile(model, backend=count)
    without_trace = compiled(x)
    num_graphs = len(graphs)
    assert num_graphs > 0

    for root in (None, compiled, model):
        with Trace(root, only="*weights") as trace:
            with_trace = compiled(x)
        assert list(trace) == ["0.weights"]
        torch.testing.assert_close(with_trace, without_trace)

    torch.testing.assert_close(compiled(x), without_trace)
    assert len(graphs) == num_graphs  # nothing was compiled again


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
def test_a_compiled_submodule_keeps_its_path(blocks: nn.Module, x: Tensor) -> None:
    blocks[1].attention = torch.compile(blocks[1].attention, backend="eager")
    blocks(x)
    with Trace(only="*.weights") as trace:
        blocks(x)
    assert list(trace) == WEIGHTS


# -- interventions that match nothing --------------------------------------------------------------


class Doubled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return tap("doubled", 2 * x)


@pytest.mark.parametrize("option", ["replace", "scale"])
def test_intervention_that_matches_nothing_names_the_closest_path(option):
    model = nn.Sequential(MultiHeadAttention(4, heads=2), MultiHeadAttention(4, heads=2))
    change = {"1.wieghts": torch.zeros(2, 1, 1)}
    with (
        pytest.raises(UserError, match=r"nothing was traced at '1\.wieghts'.*'1\.weights'"),
        Trace(only=(), **{option: change}),
    ):
        model(torch.ones(1, 3, 4))
    with Trace() as trace:  # the trace was closed before the error was raised
        model(torch.ones(1, 3, 4))
    assert "1.weights" in trace


def test_each_pattern_must_match_in_one_of_the_passes():
    short, long = nn.Sequential(Doubled()), nn.Sequential(Doubled(), Doubled())
    changes = {"0.*": 0.0, "1.doubled": 0.0}
    with Trace(scale=changes):
        short(torch.ones(2))
        long(torch.ones(2))
    with (
        pytest.raises(UserError, match=r"'1\.doubled'.*did you mean '0\.doubled'"),
        Trace(scale=changes),
    ):
        short(torch.ones(2))
    with pytest.raises(UserError, match="no model has run"), Trace(scale=changes):
        pass


def test_reopened_trace_is_checked_again():
    trace = Trace(scale={"doubled": 0.0})
    with trace:
        Doubled()(torch.ones(2))
    with pytest.raises(UserError, match="no model has run"), trace:
        pass


def test_error_inside_the_block_is_not_replaced():
    with pytest.raises(ZeroDivisionError), Trace(scale={"no.such.path": 0.0}):
        raise ZeroDivisionError
