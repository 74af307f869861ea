"""Translators: stepwise decoding, padding, attention, beam search and scheduled sampling."""

import pytest
import torch

from workings.decode import beam_search
from workings.errors import UserError
from workings.models.translation import START, SentenceBatch, build_translator
from workings.trace import Trace

KINDS = {
    "none": {"kind": "recurrent", "attention": "none", "bidirectional": False},
    "none, bidirectional": {"kind": "recurrent", "attention": "none"},
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
SOURCE_VOCAB, TARGET_VOCAB = 13, 17


def make_model(name):
    torch.manual_seed(0)
    hidden = "d_ff" if KINDS[name]["kind"] == "transformer" else "hidden_size"
    table = {"d_model": 8, hidden: 12, **KINDS[name]}
    model = build_translator(table, SOURCE_VOCAB, TARGET_VOCAB).eval()
    with torch.no_grad():  # so that biases matter and attention is not uniform
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    return model


def sentences(*lengths):
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(4, SOURCE_VOCAB, (len(lengths), max(lengths)), generator=generator)
    lengths = torch.tensor(lengths)
    return SentenceBatch(
        ids.masked_fill(torch.arange(ids.shape[1]) >= lengths[:, None], 0), lengths
    )


def targets(batch, time):
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(4, TARGET_VOCAB, (batch, time), generator=generator)
    ids[:, 0] = START
    return ids


def decode_stepwise(model, source, target):
    logits, state = model.start(source)
    steps = [logits]
    for tokens in target[:, 1:].unbind(1):
        logits, state = model.step(tokens, state)
        steps.append(logits)
    return torch.stack(steps, 1)


@pytest.mark.parametrize("name", KINDS)
@torch.no_grad()
def test_decode_stepwise_equals_one_pass(name):
    model, source, target = make_model(name), sentences(5, 3, 7), targets(3, 6)
    expected = model(source, target)
    torch.testing.assert_close(
        decode_stepwise(model, source, target), expected, atol=1e-5, rtol=1e-4
    )
    assert (expected[:, 1:] - expected[:, :-1]).abs().max() > 0.1


@pytest.mark.parametrize("name", KINDS)
@torch.no_grad()
def test_padding_changes_nothing(name):
    model, source, target = make_model(name), sentences(5, 3, 7), targets(3, 6)
    batched = model(source, target)
    for k, length in enumerate(source.lengths.tolist()):
        alone = SentenceBatch(source.ids[k : k + 1, :length], source.lengths[k : k + 1])
        torch.testing.assert_close(model(alone, target[k : k + 1])[0], batched[k])


@pytest.mark.parametrize("name", KINDS)
@torch.no_grad()
def test_logits_depend_on_the_source(name):
    model, target = make_model(name), targets(1, 4)
    one, other = sentences(6), sentences(6)
    other.ids[0, 2] = 5 if one.ids[0, 2] != 5 else 6
    assert (model(one, target) - model(other, target)).abs().max() > 1e-3


@pytest.mark.parametrize("name", KINDS)
def test_the_loss_is_the_cross_entropy_of_the_logits(name):
    model, source, target = make_model(name), sentences(5, 3), targets(2, 6)
    labels = torch.cat((target[:, 1:], torch.tensor([[3], [3]])), 1)
    labels[1, 4:] = 0
    logits = model(source, target)
    expected = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=0, reduction="sum"
    )
    torch.testing.assert_close(model(source, target, labels), expected)


@torch.no_grad()
def test_without_attention_the_decoder_starts_from_the_final_encoder_state():
    """The state after the last token of each sentence, not after its padding."""
    model, source = make_model("none"), sentences(5, 3)
    state = model.init_state(source)
    for k, length in enumerate(source.lengths.tolist()):
        embedded = model.embed(model.source_embedding, source.ids[k : k + 1, :length])
        states, _, _ = model.encoder(embedded)
        torch.testing.assert_close(state.hidden_states[0][0][0][k], states[0, -1])


@pytest.mark.parametrize("name", ["transformer", "post"])
@torch.no_grad()
def test_the_fast_decoder_equals_the_modules(name):
    model, source, target = make_model(name), sentences(5, 3, 7), targets(3, 6)
    fast = decode_stepwise(model, source, target)
    with Trace(model, only="*.weights") as trace:
        slow = decode_stepwise(model, source, target)
    assert any(".cross" in path for path in trace)
    torch.testing.assert_close(fast, slow, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("rows", [[0, 0, 1, 1], [1, 1, 1], [1, 0], [0, 0, 1], [1, 1, 0, 0], [0]])
@pytest.mark.parametrize("name", KINDS)
@torch.no_grad()
def test_selected_rows_of_a_state_continue_as_their_source(name, rows):
    """Rows of one source share its keys and values, but any rows may be selected."""
    model, source = make_model(name), sentences(5, 3)
    _, state = model.start(source)
    selected = torch.tensor(rows)
    tokens = torch.arange(4, 4 + len(rows))
    first, state = model.step(tokens, state.select(selected))
    second, _ = model.step(tokens, state.select(torch.arange(len(rows)).flip(0)))
    for k, row in enumerate(rows):
        alone = SentenceBatch(
            source.ids[row : row + 1, : source.lengths[row]], source.lengths[row : row + 1]
        )
        _, own = model.start(alone)
        expected, own = model.step(tokens[k : k + 1], own)
        torch.testing.assert_close(first[k], expected[0], atol=1e-5, rtol=1e-4)
        j = len(rows) - 1 - k
        expected, _ = model.step(tokens[j : j + 1], own)
        torch.testing.assert_close(second[j], expected[0], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", KINDS)
@torch.no_grad()
def test_beam_search_of_a_batch_equals_single_sentences(name):
    model, source = make_model(name), sentences(5, 3, 7)
    options = {"stop": 3, "max_length": 8, "beams": 4, "length_penalty": 0.6}
    batched = beam_search(model, source, **options)
    for k, length in enumerate(source.lengths.tolist()):
        alone = SentenceBatch(source.ids[k : k + 1, :length], source.lengths[k : k + 1])
        (hypotheses,) = beam_search(model, alone, **options)
        assert [h.tokens for h in hypotheses] == [h.tokens for h in batched[k]]


@pytest.mark.parametrize("name", ["additive", "dot", "general"])
@torch.no_grad()
def test_attention_weights_sum_to_one_without_padding(name):
    model, source, target = make_model(name), sentences(5, 3), targets(2, 4)
    with Trace(model, only="attention.weights") as trace:
        model(source, target)
    (weights,) = [torch.stack(trace.steps(path), 1) for path in trace]
    assert weights.shape[:2] == (2, 4)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))
    assert weights[1, ..., 3:].abs().max() == 0


@pytest.mark.parametrize("name", KINDS)
def test_16_bit_losses_and_gradients_are_close(name):
    model, source, target = make_model(name), sentences(5, 3, 7), targets(3, 6)
    labels = torch.cat([target[:, 1:], torch.zeros_like(target[:, :1])], 1)
    loss, gradients = {}, {}
    for bits in (32, 16):
        with torch.autocast("cpu", torch.bfloat16, enabled=bits == 16):
            loss[bits] = model(source, target, labels, 0.1)
        loss[bits].backward()
        used = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        gradients[bits] = torch.cat(used)
        model.zero_grad()
    torch.testing.assert_close(loss[16], loss[32], rtol=0.02, atol=0)
    assert torch.cosine_similarity(gradients[16], gradients[32], dim=0) > 0.98


@pytest.mark.parametrize("name", KINDS)
def test_scheduled_sampling_from_none_to_all_inputs(name):
    model, source, target = make_model(name), sentences(5, 3, 7), targets(3, 6)
    torch.testing.assert_close(
        model(source, target, scheduled_sampling_rate=1e-12), model(source, target)
    )
    torch.manual_seed(3)
    sampled = model(source, target, scheduled_sampling_rate=1.0)
    torch.testing.assert_close(sampled[:, 0], model(source, target)[:, 0])
    torch.manual_seed(3)
    other = target.clone()
    other[:, 1:] = 5
    # With a rate of 1, the target is not read.
    torch.testing.assert_close(model(source, other, scheduled_sampling_rate=1.0), sampled)


def test_activation_dropout_is_a_setting_of_its_own():
    table = {"kind": "transformer", "layers": 1, "heads": 2, "dropout": 0.5}
    for settings, expected in (({}, 0.5), ({"activation_dropout": 0.0}, 0.0)):
        model = build_translator({**table, **settings}, 9, 9)
        for block in (model.encoder[0], model.decoder[0]):
            assert block.feed_forward.dropout.p == expected
            assert block.feed_forward_residual.dropout.p == 0.5
    with pytest.raises(UserError, match=r"activation_dropout = 1\.0: expected 0 to below 1"):
        build_translator({**table, "activation_dropout": 1.0}, 9, 9)
