"""Language models: stepwise generation, causality, traces, learned positions and parameters."""

import pytest
import torch

from workings.decode import Sampling, generate
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
    "llama": {
        "d_model": 16,
        "layers": 2,
        "heads": 4,
        "kv_heads": 2,
        "norm_kind": "rms",
        "norm_eps": 1e-6,
        "activation": "silu",
        "gated": True,
        "bias": False,
        "rotary_base": 500.0,
    },
    "gpt-neox": {
        "d_model": 16,
        "layers": 2,
        "heads": 2,
        "rotary_fraction": 0.25,
        "parallel_residual": True,
    },
}


def make_model(name):
    torch.manual_seed(0)
    return build_language_model(KINDS[name], 20).eval()


@pytest.mark.parametrize("name", KINDS)
def test_stepwise_logits_equal_one_pass(name):
    model, ids = make_model(name), torch.randint(3, 20, (3, 12))
    with torch.no_grad():
        expected, _ = model(ids)
        logits, state = model.start(ids[:, :5])
        steps = [logits]
        for t in range(5, 12):
            logits, state = model.step(ids[:, t], state)
            steps.append(logits)
    torch.testing.assert_close(torch.stack(steps, 1), expected[:, 4:], atol=1e-5, rtol=1e-4)
    assert expected.std() > 1e-3


@pytest.mark.parametrize("name", KINDS)
def test_logits_do_not_depend_on_later_tokens(name):
    model, ids = make_model(name), torch.randint(3, 20, (2, 12))
    changed = ids.clone()
    changed[:, 7:] = (changed[:, 7:] + 1) % 17 + 3
    before, after = model(ids)[0], model(changed)[0]
    torch.testing.assert_close(before[:, :7], after[:, :7])
    assert not torch.allclose(before[:, 7:], after[:, 7:])


@pytest.mark.parametrize("name", KINDS)
def test_selected_rows_of_a_state_continue_as_their_sequence(name):
    model, ids = make_model(name), torch.randint(3, 20, (3, 6))
    rows = torch.tensor([2, 0, 2])
    with torch.no_grad():
        _, state = model.start(ids)
        selected, _ = model.step(ids[rows, 0], state.select(rows))
        _, own_state = model.start(ids[rows])
        expected, _ = model.step(ids[rows, 0], own_state)
    torch.testing.assert_close(selected, expected)


@pytest.mark.parametrize("name", KINDS)
def test_traced_and_untraced_logits_agree(name):
    model, ids = make_model(name), torch.randint(3, 20, (2, 9))
    without_trace, _ = model(ids)
    with Trace(model) as trace:
        with_trace, _ = model(ids)
    torch.testing.assert_close(with_trace, without_trace, atol=1e-5, rtol=1e-4)
    suffix = "hidden" if KINDS[name].get("kind") == "recurrent" else "attention.weights"
    assert any(path.endswith(suffix) for path in trace)


@pytest.mark.parametrize("name", KINDS)
def test_a_model_can_be_trained_after_generating(name):
    """Position tables that grew during generation can be used in training."""
    model, length = make_model(name), 40 if name == "learned" else 300
    list(generate(model, torch.randint(3, 20, (1, 5)), length))
    logits, _ = model.train()(torch.randint(3, 20, (2, length)))
    logits.sum().backward()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize("name", KINDS)
def test_a_step_is_the_same_with_trace_and_hooks(name):
    model, ids = make_model(name), torch.randint(3, 20, (3, 6))

    def run_step():
        with torch.no_grad():
            _, state = model.start(ids[:, :5])
            return model.step(ids[:, 5], state)[0]

    without_trace = run_step()
    with Trace(model) as trace:
        with_trace = run_step()
    torch.testing.assert_close(with_trace, without_trace, atol=1e-5, rtol=1e-4)
    path = max(trace, key=lambda path: path.endswith(("attention.weights", "hidden")))
    assert len(trace.steps(path)) >= 2  # the step was traced as well as the start
    calls = []
    *_, linear = (m for m in model.modules() if isinstance(m, torch.nn.Linear))  # of the last block
    linear.register_forward_hook(lambda *_: calls.append(1))
    torch.testing.assert_close(run_step(), without_trace)
    assert len(calls) >= 2


def test_generation_continues_beyond_the_learned_positions():
    model = make_model("learned")
    tokens = [t for t, _ in generate(model, torch.randint(3, 20, (1, 5)), 100, Sampling(seed=1))]
    assert len(tokens) == 100
    # When positions run out, the model starts again with the later half of its context.
    ids = torch.randint(3, 20, (1, 41))
    with torch.no_grad():
        _, state = model.start(ids[:, :40])
        logits, _ = model.step(ids[:, 40], state)
        expected, _ = model(ids[:, -20:])
    torch.testing.assert_close(logits, expected[:, -1])


def test_a_tied_head_shares_the_embedding():
    model = make_model("lstm")
    assert model.head.weight is model.embedding.weight
    with pytest.raises(UserError, match="tie_embeddings"):
        build_language_model(
            {"kind": "recurrent", "tie_embeddings": True, "d_model": 8, "hidden_size": 9}, 20
        )


def test_the_number_of_parameters_is_gpt_2s():
    """A block has 12 d² + 13 d, the last norm 2 d; the head is tied to the embedding."""
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


def test_a_model_too_large_for_memory_is_refused():
    with pytest.raises(UserError, match="model: cannot be built"):
        build_language_model({"kind": "transformer", "d_model": 2**16}, 10**9)
