"""The gates of recurrent layers: against torch's cells, and which units are shown."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from workings.errors import UserError
from workings.interpret import gates as gates_module
from workings.interpret.gates import read_gates
from workings.interpret.model_pass import ModelPass
from workings.layers.recurrent import RecurrentLayer

TEXT, WIDTH = "seven!!", 9


class OneLayer(nn.Module):
    """A recurrent layer as the whole model."""

    def __init__(self, cell: str) -> None:
        super().__init__()
        self.layer = RecurrentLayer(cell, 4, WIDTH)


@pytest.fixture(params=["lstm", "gru", "rnn"])
def model(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> OneLayer:
    torch.manual_seed(3)
    built = OneLayer(request.param)
    built.x = torch.randn(1, len(TEXT), 4)
    plan = ModelPass(built, TEXT, [list(TEXT)], lambda: built.layer(built.x)[0].sum())
    monkeypatch.setattr(gates_module, "plan_pass", lambda *_: plan)
    return built


def test_states_are_those_of_torch(model: OneLayer) -> None:
    gates = read_gates(SimpleNamespace(), TEXT, num_units=WIDTH)
    with torch.no_grad():
        expected = model.layer.layer(model.x)[0][0].numpy()
    assert gates.tokens == list(TEXT)
    assert gates.units == list(range(WIDTH))
    by_name = {signal.name[0]: np.array(signal.values) for signal in gates.signals}
    assert pytest.approx(expected, abs=1e-6) == by_name["h"].T
    if "c" in by_name:  # h = o · tanh(c), and c = f · c before + i · g
        i, f, o, g, c, h = (by_name[name] for name in "ifogch")
        assert h == pytest.approx(o * np.tanh(c), abs=1e-6)
        assert c[:, 1:] == pytest.approx(f[:, 1:] * c[:, :-1] + (i * g)[:, 1:], abs=1e-6)
    gate_values = [np.array(s.values) for s in gates.signals if not s.is_signed]
    assert all(values.min() >= 0 and values.max() <= 1 for values in gate_values)


def test_the_units_that_vary_most_are_kept(model: OneLayer) -> None:
    full, few = (read_gates(SimpleNamespace(), TEXT, num_units=n) for n in (WIDTH, 3))
    state = next(s for s in full.signals if s.name[0] == ("c" if len(full.signals) > 4 else "h"))
    spread = np.array(state.values).std(axis=1)
    assert set(few.units) == set(np.argsort(-spread)[:3].tolist())
    assert few.units == sorted(few.units)
    assert model.layer.hidden_size == few.num_units


def test_gates_are_drawn_and_written(model: OneLayer) -> None:
    gates = read_gates(SimpleNamespace(), TEXT)
    texts = {shape.text for shape in gates.picture().shapes if hasattr(shape, "text")}
    assert {signal.name for signal in gates.signals} | set("sevn!") <= texts
    assert gates.text(width=80).count("\n") > len(TEXT)
    assert "<svg" in gates.html()
    assert gates.to_dict()["units"] == [unit + 1 for unit in gates.units]
    assert model.layer.cell.upper() in gates.layer


def test_layers_and_units_out_of_range_are_refused(model: OneLayer) -> None:
    del model
    with pytest.raises(UserError, match="recurrent layer 2: the model has 1"):
        read_gates(SimpleNamespace(), TEXT, layer=2)
    with pytest.raises(UserError, match="0 units: expected at least 1"):
        read_gates(SimpleNamespace(), TEXT, num_units=0)
