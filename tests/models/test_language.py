"""Language models: what start and step promise, and what the parts are worth."""

import pytest
import torch

from workings.decode.sampling import Sampling, generate
from workings.errors import UserError
from workings.models.language import build_language_model
from workings.trace import Trace

KINDS = {
    "rnn": {"kind": "recurrent", "cell": "rnn", "d_model": 8, "hidden_size": 12},
    "gru": {"kind": "recurrent", "cell": "gru", "d_model": 8, "hidden_size": 12, "layers": 2},
    "lstm": {"kind": "recurrent", "d_model": 12, "hidden_size": 12, "tie_embeddings": True},
    "rotary": {"d_model": 16, "layers": 2, "heads": 4},
    "shared": {"d_model": 16, "layers": 2, "heads": 4, "kv_heads": 2},
    "learned": {
        "d_model": 16,
        "layers": 2,
        "heads": 2,
        "positions": "learned",
        "max_positions": 40,
    },
    "sinusoidal": {"d_model": 16, "layers": 2, "heads": 2, "positions": "sinusoidal"},
    "post": {"d_model": 16, "layers": 2, "heads": 2, "norm": "post", "tie_embeddings": False},
}


def made(name):
    torch.manual_seed(0)
    return build_language_model(KINDS[name], 20).eval()


@pytest.mark.parametrize("name", KINDS)
def test_stepping_is_reading_at_once(name):
    model, ids = made(name), torch.randint(3, 20, (3, 12))
    with torch.no_grad():
        whole, _ = model(ids)
        scores, state = model.start(ids[:, :5])
        stepped = [scores]
        for t in range(5, 12):
            scores, state = model.step(ids[:, t], state)
            stepped.append(scores)
    torch.testing.assert_close(torch.stack(stepped, 1), whole[:, 4:], atol=1e-5, rtol=1e-4)
    assert whole.std() > 1e-3


@pytest.mark.parametrize("name", KINDS)
def test_nothing_looks_ahead(name):
    model, ids = made(name), torch.randint(3, 20, (2, 12))
    changed = ids.clone()
    changed[:, 7:] = (changed[:, 7:] + 1) % 17 + 3
    before, after = model(ids)[0], model(changed)[0]
    torch.testing.assert_close(before[:, :7], after[:, :7])
    assert not torch.allclose(before[:, 7:], after[:, 7:])


@pytest.mark.parametrize("name", KINDS)
def test_rows_of_a_state_can_be_chosen(name):
    model, ids = made(name), torch.randint(3, 20, (3, 6))
    rows = torch.tensor([2, 0, 2])
    with torch.no_grad():
        _, state = model.start(ids)
        chosen, _ = model.step(ids[rows, 0], state.select(rows))
        _, straight = model.start(ids[rows])
        expected, _ = model.step(ids[rows, 0], straight)
    torch.testing.assert_close(chosen, expected)


@pytest.mark.parametrize("name", KINDS)
def test_traced_and_not_agree(name):
    model, ids = made(name), torch.randint(3, 20, (2, 9))
    dark, _ = model(ids)
    with Trace(model) as trace:
        light, _ = model(ids)
    torch.testing.assert_close(light, dark, atol=1e-5, rtol=1e-4)
    what = "hidden" if KINDS[name].get("kind") == "recurrent" else "attention.weights"
    assert any(path.endswith(what) for path in trace)


@pytest.mark.parametrize("name", KINDS)
def test_a_model_that_has_generated_can_be_trained(name):
    """Also with the tables that it made longer meanwhile."""
    model, long = made(name), 40 if name == "learned" else 300
    list(generate(model, torch.randint(3, 20, (1, 5)), long))
    scores, _ = model.train()(torch.randint(3, 20, (2, long)))
    scores.sum().backward()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize("name", KINDS)
def test_a_step_is_the_same_traced_hooked_and_not(name):
    model, ids = made(name), torch.randint(3, 20, (3, 6))

    def stepped():
        with torch.no_grad():
            _, state = model.start(ids[:, :5])
            return model.step(ids[:, 5], state)[0]

    dark = stepped()
    with Trace(model) as trace:
        light = stepped()
    torch.testing.assert_close(light, dark, atol=1e-5, rtol=1e-4)
    path = max(trace, key=lambda path: path.endswith(("attention.weights", "hidden")))
    assert len(trace.steps(path)) >= 2  # the step was seen, not only the start
    called = []
    *_, part = (m for m in model.modules() if isinstance(m, torch.nn.Linear))  # of the last block
    part.register_forward_hook(lambda *_: called.append(1))
    torch.testing.assert_close(stepped(), dark)
    assert len(called) >= 2


def test_learned_positions_go_on_with_a_window():
    model = made("learned")
    tokens = [t for t, _ in generate(model, torch.randint(3, 20, (1, 5)), 100, Sampling(seed=1))]
    assert len(tokens) == 100
    # At the edge, what is computed is what the later half of the window says by itself.
    ids = torch.randint(3, 20, (1, 41))
    with torch.no_grad():
        _, state = model.start(ids[:, :40])
        scores, _ = model.step(ids[:, 40], state)
        alone, _ = model(ids[:, -20:])
    torch.testing.assert_close(scores, alone[:, -1])


def test_a_tied_head_is_the_embedding():
    model = made("lstm")
    assert model.head.weight is model.embedding.weight
    with pytest.raises(UserError, match="tie_embeddings"):
        build_language_model(
            {"kind": "recurrent", "tie_embeddings": True, "d_model": 8, "hidden_size": 9}, 20
        )


def test_parameters_are_counted_as_gpt_2_counts_them():
    """12 d² + 13 d a block, and 2 d for the last norm; embeddings apart (the head is tied)."""
    d, layers, vocabulary = 32, 3, 50
    table = {
        "d_model": d,
        "layers": layers,
        "heads": 4,
        "positions": "learned",
        "max_positions": 10,
    }
    model = build_language_model(table, vocabulary)
    count = sum(p.numel() for p in model.parameters())
    assert count == layers * (12 * d * d + 13 * d) + 2 * d + (vocabulary + 10) * d


def test_a_model_that_no_machine_holds_is_told():
    with pytest.raises(UserError, match="model: cannot be built"):
        build_language_model({"kind": "transformer", "d_model": 2**16}, 10**9)
