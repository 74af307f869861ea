"""Traces together: nested, concurrent, through exceptions and through compiled code."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks

import workings.trace
from workings.layers import EncoderBlock, MultiHeadAttention
from workings.trace import Trace, is_tapped, tap

WEIGHTS = ["0.attention.weights", "1.attention.weights"]


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
def model() -> nn.Module:
    return make_model()


@pytest.fixture
def x() -> Tensor:
    return torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))


@pytest.fixture(autouse=True)
def _nothing_is_left_open() -> Iterator[None]:
    yield
    assert workings.trace._num_open == 0
    assert workings.trace._active_traces.get() == ()
    assert workings.trace._forward_pre_hook not in hooks._global_forward_pre_hooks.values()
    assert workings.trace._forward_hook not in hooks._global_forward_hooks.values()
    assert not is_tapped("anything")


# -- several traces ------------------------------------------------------------------------------


def test_nested_traces_each_keep_their_own(model: nn.Module, x: Tensor) -> None:
    with Trace(only="*.weights") as outer:
        model(x)
        with Trace(only="0.*.mixed") as inner:
            model(x)
        model(x)
    assert list(inner) == ["0.attention.mixed"]
    assert len(inner.steps("0.attention.mixed")) == 1
    assert list(outer) == WEIGHTS
    assert len(outer.steps("0.attention.weights")) == 3


def test_of_nested_changes_the_innermost_comes_first_and_all_see_the_result() -> None:
    with (
        Trace(replace={"x": lambda x: x + 1}) as outer,
        Trace(scale={"x": 10.0}) as inner,
    ):
        assert tap("x", torch.tensor(2.0)).item() == 21
    assert outer["x"].item() == inner["x"].item() == 21


def test_a_trace_opened_inside_a_module_starts_its_paths_there(x: Tensor) -> None:
    class Looks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = MultiHeadAttention(8, 2)

        def forward(self, x: Tensor) -> Trace:
            with Trace(self, only="*weights") as trace:
                self.attention(x)
            return trace

    with Trace(only="*weights") as outer:
        inner = nn.Sequential(Looks())(x)
        tap("weights", x)
    assert list(inner) == ["attention.weights"]
    assert list(outer) == ["0.attention.weights", "weights"]


def test_a_trace_opened_inside_a_module_may_stay_open_after_it(x: Tensor) -> None:
    class Opens(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            stack.enter_context(trace)
            return x

    with Trace(only="*weights") as outer, ExitStack() as stack:
        trace = Trace(only="*weights")
        nn.Sequential(nn.Sequential(Opens()), MultiHeadAttention(8, 2))(x)
    assert list(trace) == ["weights"]
    assert list(outer) == ["1.weights"]


def test_concurrent_traces_see_their_own_thread_only(x: Tensor) -> None:
    models = [make_model(seed) for seed in range(4)]
    untraced = models[0](x)
    expected = []
    for model in models:
        with Trace() as alone:
            model(x)
        expected.append(alone)
    seen: dict[int, Trace] = {}
    together = threading.Barrier(5)

    def look(i: int) -> None:
        with Trace() as seen[i]:
            together.wait()
            models[i](x)
            together.wait()

    threads = [threading.Thread(target=look, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    together.wait()
    torch.testing.assert_close(models[0](x), untraced)  # while all four are open
    together.wait()
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


# -- when something fails ------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ArithmeticError, KeyboardInterrupt])
def test_an_exception_inside_forward_leaves_nothing_behind(
    model: nn.Module, x: Tensor, error: type[BaseException]
) -> None:
    trace = Trace(only="*.weights")
    with pytest.raises(error), trace:
        nn.Sequential(MultiHeadAttention(8, 2), nn.Sequential(Fails(error)))(x)
    with trace:
        model(x)
    assert list(trace) == ["0.weights", *WEIGHTS]


def test_after_a_caught_exception_the_paths_are_right_again(model: nn.Module, x: Tensor) -> None:
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
        model(x)
    assert len(trace.steps("0.attention.weights")) == 2
    assert list(trace) == WEIGHTS


# -- compiled ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
def test_a_compiled_model_is_traced_through_its_original(x: Tensor) -> None:
    graphs = []

    def count(graph: torch.fx.GraphModule, _inputs: object) -> object:
        graphs.append(graph)
        return graph.forward

    model = nn.Sequential(MultiHeadAttention(8, 2))
    compiled = torch.compile(model, backend=count)
    plain = compiled(x)
    ran = len(graphs)
    assert ran > 0

    for known in (None, compiled, model):  # however it is given
        with Trace(known, only="*weights") as trace:
            traced = compiled(x)
        assert list(trace) == ["0.weights"]
        torch.testing.assert_close(traced, plain)

    torch.testing.assert_close(compiled(x), plain)
    assert len(graphs) == ran  # nothing was compiled again, neither then nor now


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
def test_a_compiled_part_of_a_model_has_its_original_s_path(model: nn.Module, x: Tensor) -> None:
    model[1].attention = torch.compile(model[1].attention, backend="eager")
    model(x)
    with Trace(only="*.weights") as trace:
        model(x)
    assert list(trace) == WEIGHTS
