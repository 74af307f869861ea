"""Translators: a token at a time is the same as all at once, and padding never counts."""

import pytest
import torch

from workings.decode.beam import beam_search
from workings.errors import UserError
from workings.models.translation import START, SentenceBatch, build_translator
from workings.trace import Trace

KINDS = {
    "none": {"kind": "recurrent", "attention": "none", "bidirectional": False},
    "none, both ways": {"kind": "recurrent", "attention": "none"},
    "none, lstm": {
        "kind": "recurrent",
        "attention": "none",
        "cell": "lstm",
        "bidirectional": False,
    },
    "fixed": {"kind": "recurrent", "attention": "fixed"},
    "additive": {"kind": "recurrent"},
    "dot": {"kind": "recurrent", "attention": "dot", "cell": "lstm", "layers": 2},
    "general": {"kind": "recurrent", "attention": "general", "cell": "rnn", "bidirectional": False},
    "transformer": {"kind": "transformer", "layers": 2, "heads": 2, "share_embeddings": False},
    "post": {
        "kind": "transformer",
        "layers": 2,
        "heads": 2,
        "norm": "post",
        "share_embeddings": False,
    },
}
SOURCE, TARGET = 13, 17


def made(name):
    torch.manual_seed(0)
    hidden = "d_ff" if KINDS[name]["kind"] == "transformer" else "hidden_size"
    table = {"d_model": 8, hidden: 12, **KINDS[name]}
    model = build_translator(table, SOURCE, TARGET).eval()
    with torch.no_grad():  # biases matter, and attention is not all even
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    return model


def sentences(*lengths):
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(4, SOURCE, (len(lengths), max(lengths)), generator=draw)
    lengths = torch.tensor(lengths)
    return SentenceBatch(
        ids.masked_fill(torch.arange(ids.shape[1]) >= lengths[:, None], 0), lengths
    )


def targets(batch, time):
    draw = torch.Generator().manual_seed(2)
    ids = torch.randint(4, TARGET, (batch, time), generator=draw)
    ids[:, 0] = START
    return ids


def stepwise(model, source, target):
    scores, state = model.start(source)
    found = [scores]
    for tokens in target[:, 1:].unbind(1):
        scores, state = model.step(tokens, state)
        found.append(scores)
    return torch.stack(found, 1)


@pytest.mark.parametrize("name", KINDS)
@torch.no_grad()
def test_a_token_at_a_time_is_as_all_at_once(name):
    model, source, target = made(name), sentences(5, 3, 7), targets(3, 6)
    whole = model(source, target)
    torch.testing.assert_close(stepwise(model, source, target), whole, atol=1e-5, rtol=1e-4)
    assert (whole[:, 1:] - whole[:, :-1]).abs().max() > 0.1


@pytest.mark.parametrize("name", KINDS)
@torch.no_grad()
def test_padding_never_counts(name):
    model, source, target = made(name), sentences(5, 3, 7), targets(3, 6)
    together = model(source, target)
    for k, length in enumerate(source.lengths.tolist()):
        alone = SentenceBatch(source.ids[k : k + 1, :length], source.lengths[k : k + 1])
        torch.testing.assert_close(model(alone, target[k : k + 1])[0], together[k])


@pytest.mark.parametrize("name", KINDS)
@torch.no_grad()
def test_the_source_matters(name):
    model, target = made(name), targets(1, 4)
    one, other = sentences(6), sentences(6)
    other.ids[0, 2] = 5 if one.ids[0, 2] != 5 else 6
    assert (model(one, target) - model(other, target)).abs().max() > 1e-3


@pytest.mark.parametrize("name", KINDS)
def test_the_loss_is_that_of_the_scores(name):
    model, source, target = made(name), sentences(5, 3), targets(2, 6)
    following = torch.cat((target[:, 1:], torch.tensor([[3], [3]])), 1)
    following[1, 4:] = 0
    scores = model(source, target)
    expected = torch.nn.functional.cross_entropy(
        scores.flatten(0, 1), following.flatten(), ignore_index=0, reduction="sum"
    )
    torch.testing.assert_close(model(source, target, following), expected)


@torch.no_grad()
def test_the_decoder_begins_with_the_encoders_last_state():
    """s_0 = h_T, at the last real token of each sentence."""
    model, source = made("none"), sentences(5, 3)
    state = model.init_state(source)
    for k, length in enumerate(source.lengths.tolist()):
        read = model.embed(model.source_embedding, source.ids[k : k + 1, :length])
        states, _, _ = model.encoder(read)
        torch.testing.assert_close(state.hidden_states[0][0][0][k], states[0, -1])


@pytest.mark.parametrize("name", ["transformer", "post"])
@torch.no_grad()
def test_the_straight_way_is_that_of_the_modules(name):
    model, source, target = made(name), sentences(5, 3, 7), targets(3, 6)
    fast = stepwise(model, source, target)
    with Trace(model, only="*.weights") as trace:
        slow = stepwise(model, source, target)
    assert any(".cross" in path for path in trace)
    torch.testing.assert_close(fast, slow, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("rows", [[0, 0, 1, 1], [1, 1, 1], [1, 0], [0, 0, 1], [1, 1, 0, 0], [0]])
@pytest.mark.parametrize("name", KINDS)
@torch.no_grad()
def test_rows_of_a_state(name, rows):
    """Beams of one source share what they look at; any rows may be chosen, though."""
    model, source = made(name), sentences(5, 3)
    _, state = model.start(source)
    chosen = torch.tensor(rows)
    tokens = torch.arange(4, 4 + len(rows))
    found, state = model.step(tokens, state.select(chosen))
    again, _ = model.step(tokens, state.select(torch.arange(len(rows)).flip(0)))
    for k, row in enumerate(rows):
        alone = SentenceBatch(
            source.ids[row : row + 1, : source.lengths[row]], source.lengths[row : row + 1]
        )
        _, own = model.start(alone)
        expected, own = model.step(tokens[k : k + 1], own)
        torch.testing.assert_close(found[k], expected[0], atol=1e-5, rtol=1e-4)
        j = len(rows) - 1 - k
        expected, _ = model.step(tokens[j : j + 1], own)
        torch.testing.assert_close(again[j], expected[0], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", KINDS)
@torch.no_grad()
def test_a_beam_in_a_batch_is_as_one_alone(name):
    model, source = made(name), sentences(5, 3, 7)
    how = {"stop": 3, "max_length": 8, "beams": 4, "length_penalty": 0.6}
    together = beam_search(model, source, **how)
    for k, length in enumerate(source.lengths.tolist()):
        alone = SentenceBatch(source.ids[k : k + 1, :length], source.lengths[k : k + 1])
        (found,) = beam_search(model, alone, **how)
        assert [h.tokens for h in found] == [h.tokens for h in together[k]]


@pytest.mark.parametrize("name", ["additive", "dot", "general"])
@torch.no_grad()
def test_attention_weights_are_seen_and_padding_has_none(name):
    model, source, target = made(name), sentences(5, 3), targets(2, 4)
    with Trace(model, only="attention.weights") as trace:
        model(source, target)
    (weights,) = [torch.stack(trace.steps(path), 1) for path in trace]
    assert weights.shape[:2] == (2, 4)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))
    assert weights[1, ..., 3:].abs().max() == 0


@pytest.mark.parametrize("name", KINDS)
def test_half_the_digits_cost_no_more_than_digits(name):
    model, source, target = made(name), sentences(5, 3, 7), targets(3, 6)
    following = torch.cat([target[:, 1:], torch.zeros_like(target[:, :1])], 1)
    loss, gradients = {}, {}
    for bits in (32, 16):
        with torch.autocast("cpu", torch.bfloat16, enabled=bits == 16):
            loss[bits] = model(source, target, following, 0.1)
        loss[bits].backward()
        used = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        gradients[bits] = torch.cat(used)
        model.zero_grad()
    torch.testing.assert_close(loss[16], loss[32], rtol=0.02, atol=0)
    assert torch.cosine_similarity(gradients[16], gradients[32], dim=0) > 0.98


@pytest.mark.parametrize("name", KINDS)
def test_a_student_that_is_never_asked_is_taught_as_all_at_once(name):
    model, source, target = made(name), sentences(5, 3, 7), targets(3, 6)
    torch.testing.assert_close(
        model(source, target, scheduled_sampling_rate=1e-12), model(source, target)
    )
    torch.manual_seed(3)
    alone = model(source, target, scheduled_sampling_rate=1.0)
    torch.testing.assert_close(alone[:, 0], model(source, target)[:, 0])  # nothing written yet
    torch.manual_seed(3)
    other = target.clone()
    other[:, 1:] = 5
    torch.testing.assert_close(
        model(source, other, scheduled_sampling_rate=1.0), alone
    )  # the text is not read


def test_a_recipe_says_how_many_hidden_features_are_dropped():
    table = {"kind": "transformer", "layers": 1, "heads": 2, "dropout": 0.5}
    for said, expected in (({}, 0.5), ({"activation_dropout": 0.0}, 0.0)):
        model = build_translator({**table, **said}, 9, 9)
        for block in (model.encoder[0], model.decoder[0]):
            assert block.feed_forward.dropout.p == expected
            assert block.feed_forward_residual.dropout.p == 0.5
    with pytest.raises(UserError, match=r"activation_dropout = 1\.0: from 0 to below 1"):
        build_translator({**table, "activation_dropout": 1.0}, 9, 9)
