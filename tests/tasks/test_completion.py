"""A completion's pieces of text are the text of its tokens."""

from dataclasses import replace

import pytest
import torch

from workings.data.tokenizers.registry import train_tokenizer
from workings.decode.sampling import Sampling, generate
from workings.models.language import build_language_model
from workings.tasks.language_modeling import list_non_text_ids, stream_completion

TEXT = "Ärger über große Bäume, 東京 and “quotes” — done. It's l'eau, don't!\n" * 4


@pytest.mark.parametrize("prompt", ["", "über 東", "and"])
@pytest.mark.parametrize(("kind", "size"), [("characters", 99), ("words", 99), ("byte-pair", 270)])
def test_pieces_make_up_what_all_tokens_say(kind, size, prompt):
    tokenizer = train_tokenizer(kind, [TEXT], size)
    torch.manual_seed(0)
    model = build_language_model({"kind": "recurrent", "hidden_size": 8}, len(tokenizer)).eval()
    how = Sampling(temperature=2.0, seed=5)  # bytes at random are seldom whole characters
    begin = tokenizer.encode(prompt) or [tokenizer.bos_id]
    drawn = generate(
        model,
        torch.tensor([begin]),
        300,
        replace(how, suppress_tokens=list_non_text_ids(tokenizer)),
    )
    ids = [int(token) for token, _ in drawn]
    expected = tokenizer.decode([*begin, *ids])[len(tokenizer.decode(begin)) :]
    told = list(stream_completion(model, tokenizer, prompt, 300, how))
    assert "".join(piece.text for piece in told) == expected
    assert [piece.token for piece in told if piece.token] == [tokenizer.id_to_token(i) for i in ids]


def test_a_long_text_is_not_decoded_again_for_every_token(monkeypatch):
    tokenizer = train_tokenizer("characters", [TEXT], 99)
    model = build_language_model({"kind": "recurrent", "hidden_size": 8}, len(tokenizer)).eval()
    decode, lengths = type(tokenizer).decode, []
    monkeypatch.setattr(
        type(tokenizer), "decode", lambda self, ids: lengths.append(len(ids)) or decode(self, ids)
    )
    list(stream_completion(model, tokenizer, "and", 200, Sampling(seed=1)))
    assert max(lengths[4:]) < 30


@pytest.mark.parametrize("kind", ["characters", "words"])
def test_what_no_text_has_is_never_drawn(kind):
    tokenizer = train_tokenizer(kind, ["aa bb"], 99)
    model = build_language_model({"kind": "recurrent", "hidden_size": 8}, len(tokenizer)).eval()
    wild = Sampling(temperature=50.0, seed=1)
    drawn = {int(token) for token, _ in generate(model, torch.tensor([[1]]), 200, wild)}
    assert drawn & {0, 1, 2}
    told = {piece.token for piece in stream_completion(model, tokenizer, "aa", 200, wild)}
    assert told <= {tokenizer.id_to_token(k) for k in range(3, len(tokenizer))} | {""}
    assert len(told) > 1
