"""Marian in Hugging Face's format, against Hugging Face's own code if it is installed."""

import io
import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from sentencepiece_files import encode_message, make_sentencepiece_model

from workings.data.tokenizers.unigram import UnigramTokenizer
from workings.decode import beam_search
from workings.errors import UserError
from workings.interop.conversion import import_model
from workings.interop.huggingface import read_config
from workings.interop.marian import read_translator, write_translator
from workings.interop.sentencepiece import read_sentencepiece_model
from workings.models.translation import START, SentenceBatch, build_translator

SMALL = {"d_model": 16, "d_ff": 24, "layers": 2, "heads": 2, "norm": "post"}
VOCAB_SIZE = 40
KINDS = {
    "default": {},
    "two vocabularies": {"share_embeddings": False},
    "untied": {"tie_embeddings": False},
    "two vocabularies, untied": {
        "share_embeddings": False,
        "tie_embeddings": False,
        "activation": "gelu",
    },
    "bias": {"output_bias": True, "activation": "silu"},
    "odd d_model": {"d_model": 15, "heads": 3, "activation": "gelu-tanh"},
    "pegasus": {"norm": "pre"},
    "pegasus, untied": {"norm": "pre", "tie_embeddings": False},
    "pegasus, bias": {"norm": "pre", "output_bias": True, "activation": "silu"},
}


def layout_of(name):
    return "pegasus" if name.startswith("pegasus") else "marian"


def perturb(model):
    """Add noise to all weights: biases and norms have no effect when initialized."""
    rng = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in [*model.named_parameters(), *model.named_buffers()]:
            if "positions" not in name:
                weight.add_(0.2 * torch.randn(weight.shape, generator=rng))
    return model.eval()


def make_model(name="default", **changes):
    torch.manual_seed(0)
    table = SMALL | KINDS[name] | changes
    return perturb(
        build_translator(
            table, VOCAB_SIZE + 2 * (not table.get("share_embeddings", True)), VOCAB_SIZE
        )
    )


def make_pairs(eos_id=3):
    """Return sources of two lengths, their lengths, and targets whose first token is replaced."""
    rng = torch.Generator().manual_seed(2)
    source = torch.randint(4, VOCAB_SIZE - 1, (2, 7), generator=rng)
    target = torch.randint(4, VOCAB_SIZE - 1, (2, 6), generator=rng)
    source[0, 6] = source[1, 4] = eos_id
    return source, torch.tensor([7, 5]), target


def compute_logits(model, order=range(VOCAB_SIZE)):
    """Return our model's logits for pairs in Marian's ids."""
    our_ids = {hf_id: k for k, hf_id in enumerate(order)}  # START, if that is also the padding
    source, lengths, target = make_pairs(order[3])
    source.apply_(our_ids.get)
    target[:, 0] = order[START]
    target.apply_(our_ids.get)
    source[1, 5:] = 0
    with torch.no_grad():
        return model(SentenceBatch(source, lengths), target)


def compute_hf_logits(model):
    config = model.config
    source, lengths, target = make_pairs(config.eos_token_id)
    target[:, 0] = config.decoder_start_token_id
    source[1, 5:] = config.pad_token_id
    mask = (torch.arange(7) < lengths[:, None]).long()
    with torch.no_grad():
        return model(input_ids=source, attention_mask=mask, decoder_input_ids=target).logits


# -- against Hugging Face --------------------------------------------------------------------------


def make_hf_model(**changes):
    transformers = pytest.importorskip("transformers")
    sizes = {"layers": 2, "attention_heads": 2, "ffn_dim": 24}
    settings = {
        **{f"{side}_{key}": n for side in ("encoder", "decoder") for key, n in sizes.items()},
        "vocab_size": VOCAB_SIZE,
        "d_model": 16,
        "max_position_embeddings": 64,
        "activation_function": "swish",
        "scale_embedding": True,
        "pad_token_id": VOCAB_SIZE - 1,
        "decoder_start_token_id": VOCAB_SIZE - 1,
        "eos_token_id": 0,
        "forced_eos_token_id": None,
    }
    torch.manual_seed(0)
    return perturb(transformers.MarianMTModel(transformers.MarianConfig(**settings | changes)))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"activation_function": "gelu"},
        {"d_model": 30, "activation_function": "relu"},
        {"tie_word_embeddings": False},
        {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": VOCAB_SIZE},
        {"eos_token_id": 5, "pad_token_id": 7, "decoder_start_token_id": 9},
    ],
)
def test_model_of_hugging_face_is_read(changes, tmp_path):
    model = make_hf_model(**changes)
    model.save_pretrained(tmp_path)
    imported = read_translator(tmp_path, read_config(tmp_path), unk_id=1)
    expected = compute_hf_logits(model)[:, :, imported.target_order]
    logits = compute_logits(imported.model, imported.target_order)
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)
    assert expected.std() > 0.1
    is_tied = imported.model.head.weight is imported.model.target_embedding.weight
    assert is_tied == changes.get("tie_word_embeddings", True)
    assert all(p.requires_grad for p in imported.model.parameters())


@pytest.mark.parametrize("name", KINDS)
def test_hugging_face_reads_our_model(name, tmp_path):
    transformers = pytest.importorskip("transformers")
    model = make_model(name)
    write_translator(model, tmp_path, layout_of(name))
    auto_class = transformers.AutoModelForSeq2SeqLM
    reread, info = auto_class.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values()), info
    torch.testing.assert_close(
        compute_hf_logits(reread.eval()), compute_logits(model), atol=1e-5, rtol=0
    )


@torch.no_grad()
def test_greedy_translation_equals_hugging_faces(tmp_path):
    model = make_hf_model()
    model.save_pretrained(tmp_path)
    imported = read_translator(tmp_path, read_config(tmp_path), unk_id=1)
    source = make_pairs(0)[0][:1]
    expected = model.generate(source, max_new_tokens=12, num_beams=1, do_sample=False)[0, 1:]
    our_ids = source.clone().apply_(imported.target_order.index)
    batch = SentenceBatch(our_ids, torch.tensor([7]))
    (best,) = beam_search(imported.model, batch, stop=3, max_length=12, beams=1)[0]
    tokens = [imported.target_order[k] for k in best.tokens]
    assert tokens == [k for k in expected.tolist() if k != 0]


# -- model -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS)
def test_written_model_is_read_unchanged(name, tmp_path):
    model = make_model(name)
    write_translator(model, tmp_path, layout_of(name))
    reread = read_translator(tmp_path, read_config(tmp_path), unk_id=2)
    assert not reread.is_renumbered
    before, after = model.state_dict(), reread.model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert torch.equal(compute_logits(reread.model), compute_logits(model))


def edit_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_copies_of_shared_tensors_are_ignored(tmp_path):
    write_translator(make_model(), tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    shared = tensors.pop("model.shared.weight")
    for name in ("model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head"):
        tensors[f"{name}.weight"] = shared.clone()
    tensors["model.encoder.embed_positions.weight"] = torch.ones(64, 16)
    save_file({name: t.contiguous() for name, t in tensors.items()}, path)
    reread = read_translator(tmp_path, read_config(tmp_path), unk_id=2)
    assert torch.equal(compute_logits(reread.model), compute_logits(make_model()))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "bart"}, "model_type = 'bart'"),
        ({"scale_embedding": False}, "scale_embedding = False"),
        ({"normalize_before": True}, "normalize_before"),
        ({"activation_function": "swich"}, "did you mean 'swish'"),
        ({"encoder_layers": "two"}, "encoder_layers = 'two': expected a positive integer"),
        ({"decoder_layers": 3}, "decoder_layers = 3, but encoder_layers = 2"),
        ({"encoder_layers": 3, "decoder_layers": 3}, "is missing"),
        ({"encoder_layers": 1, "decoder_layers": 1}, "is not a tensor of a Marian"),
        ({"vocab_size": 50}, "final_logits_bias is of shape"),
        ({"d_model": 32}, r"weight is of shape \(40, 16\)"),
        ({"eos_token_id": 40}, "token id 40 is out of range: 0 to 39"),
        ({"eos_token_id": [3]}, r"token id \[3\] is out of range"),
        ({"eos_token_id": 2}, "eos_token_id and the unknown token must differ"),
    ],
)
def test_invalid_configs_are_rejected(changes, message, tmp_path):
    write_translator(make_model(), tmp_path)
    edit_config(tmp_path, **changes)
    with pytest.raises(UserError, match=message):
        read_translator(tmp_path, read_config(tmp_path), unk_id=2)


def test_models_that_are_not_marian_are_rejected(tmp_path):
    with pytest.raises(UserError, match=r'model.norm = "post", or --to pegasus'):
        write_translator(make_model(norm="pre"), tmp_path)
    with pytest.raises(UserError, match=r'model.norm = "pre", or --to marian'):
        write_translator(make_model(), tmp_path, "pegasus")
    with pytest.raises(UserError, match="one embedding for source and target"):
        write_translator(make_model("two vocabularies", norm="pre"), tmp_path, "pegasus")
    recurrent = build_translator({"kind": "recurrent", "d_model": 8, "hidden_size": 8}, 20, 20)
    with pytest.raises(UserError, match="recurrent"):
        write_translator(recurrent, tmp_path)


def test_nan_weights_are_rejected(tmp_path):
    model = make_model()
    with torch.no_grad():
        model.head.weight[5, 2] = torch.nan
    write_translator(model, tmp_path)
    with pytest.raises(UserError, match="has NaN or infinite values"):
        read_translator(tmp_path, read_config(tmp_path), unk_id=2)


# -- tokenizers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("source.spm", b"\xff\xff", "not a SentencePiece model"),
        ("source.spm", b"", "not a SentencePiece model"),
        ("source.spm", make_sentencepiece_model()[:-1], "not a SentencePiece model"),
        ("source.spm", encode_message((1, encode_message((2, 0.5)))), "not a SentencePiece model"),
        ("source.spm", make_sentencepiece_model(model_type=2), "expected unigram"),
        ("source.spm", make_sentencepiece_model(piece_type=6), "pieces of type"),
        ("target.spm", make_sentencepiece_model(add_dummy_prefix=0), "settings for spaces"),
        ("vocab.json", b'{"<unk>": "x"}', "expected an id of at least 0"),
        ("vocab.json", b'{"<unk>": 1, "a": 1}', "the same id"),
        ("vocab.json", b'{"a": 1}', "expected <unk> with the same id"),
    ],
)
def test_invalid_vocabularies_are_rejected(name, content, message, opus, tmp_path):
    (opus / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        import_model(opus, tmp_path / "run")
    assert not (tmp_path / "run").exists()


TEXTS = ["the lower cats are lowest", "naïve  café", "ﬁne ①\t two\u3000x", " a ", "ABC…", "日本 x"]


def test_pieces_equal_sentencepieces(tmp_path):
    library = pytest.importorskip("sentencepiece")
    trained = io.BytesIO()
    library.SentencePieceTrainer.train(
        sentence_iterator=iter(["the lower cats are lowest of all naïve cafés, aren't they?"] * 30),
        model_writer=trained,
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    (tmp_path / "source.spm").write_bytes(trained.getvalue())
    engine = library.SentencePieceProcessor(model_proto=trained.getvalue())
    model = read_sentencepiece_model(tmp_path / "source.spm")
    tokenizer = UnigramTokenizer(
        [p for p, _ in model.scored_pieces],
        scored_pieces=model.scored_pieces,
        charsmap=model.charsmap,
    )
    for text in TEXTS:
        expected = engine.encode(text, out_type=str)
        assert [t.replace(" ", "▁") for t in tokenizer.tokenize(text)] == expected
        assert tokenizer.join(expected) == engine.decode(expected)
