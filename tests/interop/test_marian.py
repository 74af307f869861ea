"""Marian to and from Hugging Face's layout, against Hugging Face's own code where it is there."""

import json
import struct

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer as Engine

from workings.cli import main
from workings.data.tokenizers.byte_pair import BytePairTokenizer
from workings.data.tokenizers.registry import load_tokenizer
from workings.data.tokenizers.unigram import UnigramTokenizer
from workings.data.tokenizers.words import WordTokenizer
from workings.decode.beam import beam_search
from workings.errors import UserError
from workings.interop.conversion import export_translator, import_model
from workings.interop.gpt2 import read_config, write_tokenizer
from workings.interop.marian import (
    read_marian,
    read_sentencepiece_model,
    read_vocabularies,
    write_marian,
)
from workings.interpret.attention_maps import compute_alignment
from workings.models.translation import START, SentenceBatch, build_translator
from workings.tasks.translation import TokenizerPair, Translation
from workings.training.runs import load_as

SMALL = {"d_model": 16, "d_ff": 24, "layers": 2, "heads": 2, "norm": "post"}
SIZE = 40
KINDS = {
    "usual": {},
    "two vocabularies": {"share_embeddings": False},
    "untied": {"tie_embeddings": False},
    "two, untied": {"share_embeddings": False, "tie_embeddings": False, "activation": "gelu"},
    "with a bias": {"output_bias": True, "activation": "silu"},
    "odd": {"d_model": 15, "heads": 3, "activation": "gelu-tanh"},
}


def stirred(model):
    """Give every weight, biases and norms too, a value that matters."""
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in [*model.named_parameters(), *model.named_buffers()]:
            if "positions" not in name:
                weight.add_(0.2 * torch.randn(weight.shape, generator=draw))
    return model.eval()


def made(name="usual", **changes):
    torch.manual_seed(0)
    table = SMALL | KINDS[name] | changes
    return stirred(
        build_translator(table, SIZE + 2 * (not table.get("share_embeddings", True)), SIZE)
    )


def pairs(stop=3):
    """Sources of two lengths, and translations behind their start."""
    draw = torch.Generator().manual_seed(2)
    source = torch.randint(4, SIZE - 1, (2, 7), generator=draw)
    target = torch.randint(4, SIZE - 1, (2, 6), generator=draw)
    source[0, 6] = source[1, 4] = stop
    return source, torch.tensor([7, 5]), target


def scores(model, order=range(SIZE)):
    """Of our model, given ids in their numbers."""
    ours = {number: k for k, number in enumerate(order)}  # the start, where that is padding, too
    source, lengths, target = pairs(order[3])
    source.apply_(ours.get)
    target[:, 0] = order[START]
    target.apply_(ours.get)
    source[1, 5:] = 0
    with torch.no_grad():
        return model(SentenceBatch(source, lengths), target)


def their_scores(model):
    config = model.config
    source, lengths, target = pairs(config.eos_token_id)
    target[:, 0] = config.decoder_start_token_id
    source[1, 5:] = config.pad_token_id
    mask = (torch.arange(7) < lengths[:, None]).long()
    with torch.no_grad():
        return model(input_ids=source, attention_mask=mask, decoder_input_ids=target).logits


# -- against Hugging Face ----------------------------------------------------------------------


def theirs(**changes):
    transformers = pytest.importorskip("transformers")
    sizes = {"layers": 2, "attention_heads": 2, "ffn_dim": 24}
    settings = {
        **{f"{side}_{key}": n for side in ("encoder", "decoder") for key, n in sizes.items()},
        "vocab_size": SIZE,
        "d_model": 16,
        "max_position_embeddings": 64,
        "activation_function": "swish",
        "scale_embedding": True,
        "pad_token_id": SIZE - 1,
        "decoder_start_token_id": SIZE - 1,
        "eos_token_id": 0,
        "forced_eos_token_id": None,
    }
    torch.manual_seed(0)
    return stirred(transformers.MarianMTModel(transformers.MarianConfig(**settings | changes)))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"activation_function": "gelu"},
        {"d_model": 30, "activation_function": "relu"},
        {"tie_word_embeddings": False},
        {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": SIZE},
        {"eos_token_id": 5, "pad_token_id": 7, "decoder_start_token_id": 9},
    ],
)
def test_their_model_becomes_ours(changes, tmp_path):
    model = theirs(**changes)
    model.save_pretrained(tmp_path)
    ours = read_marian(tmp_path, read_config(tmp_path), unk_id=1)
    expected = their_scores(model)[:, :, ours.target_order]
    found = scores(ours.model, ours.target_order)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    assert expected.std() > 0.1
    tied = ours.model.head.weight is ours.model.target_embedding.weight
    assert tied == changes.get("tie_word_embeddings", True)
    assert all(p.requires_grad for p in ours.model.parameters())


@pytest.mark.parametrize("name", KINDS)
def test_our_model_becomes_theirs(name, tmp_path):
    transformers = pytest.importorskip("transformers")
    model = made(name)
    write_marian(model, tmp_path)
    reread, told = transformers.MarianMTModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(told.values()), told
    torch.testing.assert_close(their_scores(reread.eval()), scores(model), atol=1e-5, rtol=0)


@torch.no_grad()
def test_their_greedy_translation_is_ours(tmp_path):
    model = theirs()
    model.save_pretrained(tmp_path)
    ours = read_marian(tmp_path, read_config(tmp_path), unk_id=1)
    source = pairs(0)[0][:1]
    found = model.generate(source, max_new_tokens=12, num_beams=1, do_sample=False)[0, 1:].tolist()
    read = SentenceBatch(source.clone().apply_(ours.target_order.index), torch.tensor([7]))
    (best,) = beam_search(ours.model, read, stop=3, max_length=12, beams=1)[0]
    assert [ours.target_order[k] for k in best.tokens] == [k for k in found if k != 0]


# -- by itself ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS)
def test_there_and_back(name, tmp_path):
    model = made(name)
    write_marian(model, tmp_path)
    back = read_marian(tmp_path, read_config(tmp_path), unk_id=2)
    assert not back.is_renumbered
    before, after = model.state_dict(), back.model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert torch.equal(scores(back.model), scores(model))


def edit(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_matrices_that_are_said_twice(tmp_path):
    write_marian(made(), tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    shared = tensors.pop("model.shared.weight")
    for name in ("model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head"):
        tensors[f"{name}.weight"] = shared.clone()
    tensors["model.encoder.embed_positions.weight"] = torch.ones(64, 16)
    save_file({name: t.contiguous() for name, t in tensors.items()}, path)
    back = read_marian(tmp_path, read_config(tmp_path), unk_id=2)
    assert torch.equal(scores(back.model), scores(made()))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"model_type": "bart"}, "model_type = 'bart'"),
        ({"scale_embedding": False}, "scale_embedding = False"),
        ({"normalize_before": True}, "normalize_before"),
        ({"activation_function": "swich"}, "did you mean 'swish'"),
        ({"encoder_layers": "two"}, "encoder_layers = 'two': expected a whole number"),
        ({"decoder_layers": 3}, "decoder_layers = 3, but encoder_layers = 2"),
        ({"encoder_layers": 3, "decoder_layers": 3}, "is missing"),
        ({"encoder_layers": 1, "decoder_layers": 1}, "no part of a Marian"),
        ({"vocab_size": 50}, "final_logits_bias is of shape"),
        ({"d_model": 32}, r"weight is of shape \(40, 16\)"),
        ({"eos_token_id": 40}, "token 40 is none of the 40"),
        ({"eos_token_id": [3]}, "token .3. is none"),
        ({"eos_token_id": 1}, "not three tokens"),
    ],
)
def test_configs_that_do_not_fit(changes, told, tmp_path):
    write_marian(made(), tmp_path)
    edit(tmp_path, **changes)
    with pytest.raises(UserError, match=told):
        read_marian(tmp_path, read_config(tmp_path), unk_id=2)


def test_what_is_no_marian(tmp_path):
    with pytest.raises(UserError, match=r'model.norm = "post"'):
        write_marian(made(norm="pre"), tmp_path)
    recurrent = build_translator({"kind": "recurrent", "d_model": 8, "hidden_size": 8}, 20, 20)
    with pytest.raises(UserError, match="recurrent"):
        write_marian(recurrent, tmp_path)


def test_weights_that_are_no_numbers(tmp_path):
    model = made()
    with torch.no_grad():
        model.head.weight[5, 2] = torch.nan
    write_marian(model, tmp_path)
    with pytest.raises(UserError, match="has NaN or infinite values"):
        read_marian(tmp_path, read_config(tmp_path), unk_id=2)


# -- tokens ------------------------------------------------------------------------------------

SCORED = {"▁": -2.0, "▁the": -2.5, "▁le": -2.6, "▁cat": -3.0, "▁chat": -3.1, "s": -3.0, "e": -4.0}


def varint(n):
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def message(*fields):
    parts = []
    for number, value in fields:
        if isinstance(value, bytes):
            parts.append(varint(number << 3 | 2) + varint(len(value)) + value)
        elif isinstance(value, float):
            parts.append(varint(number << 3 | 5) + struct.pack("<f", value))
        else:
            parts.append(varint(number << 3) + varint(value))
    return b"".join(parts)


def spm(kind=1, piece_kind=1, **settings):
    """A SentencePiece model, as its file has it."""
    pieces = [(1, message((1, b"<unk>"), (2, 0.0), (3, 2))), (1, message((1, b"</s>"), (3, 3)))]
    pieces += [(1, message((1, p.encode()), (2, s), (3, piece_kind))) for p, s in SCORED.items()]
    return message(*pieces, (2, message((3, kind))), (3, message((3, settings.get("prefix", 1)))))


@pytest.fixture
def opus(tmp_path):
    """A folder as OPUS-MT's are, with a model of random weights."""
    folder = tmp_path / "opus"
    folder.mkdir()
    names = ["</s>", "<unk>", *SCORED, ">>fr<<"]
    (folder / "vocab.json").write_text(json.dumps({n: k for k, n in enumerate([*names, "<pad>"])}))
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes(spm())
    (folder / "tokenizer_config.json").write_text('{"source_lang": "en", "target_lang": "fr"}')
    size = len(names) + 1
    torch.manual_seed(0)
    write_marian(stirred(build_translator(SMALL | {"output_bias": True}, size, size)), folder)
    edit(folder, eos_token_id=0, pad_token_id=size - 1, decoder_start_token_id=size - 1)
    return folder


def test_a_folder_becomes_a_run_that_translates(opus, tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["import", str(opus), "--out", str(run)]) == 0
    task = load_as(Translation, run)
    assert task.tokenizers.encode_source(">>fr<< the cats!") == [11, 5, 7, 9, 2, 3]
    assert (task.recipe.data.source, task.recipe.data.target) == ("en", "fr")
    texts = ["the cat", "cats", "le chat the cats"]
    found = list(task.translate(texts))
    assert all(not {0, 1} & set(t.tokens) for some in found for t in some)  # nothing but text
    assert main(["evaluate", str(run)]) == 2
    assert "an imported model has no test data of its own: --data FILE" in capsys.readouterr().err
    assert main(["translate", str(run), *texts]) == 0
    assert capsys.readouterr().out.splitlines() == [some[0].text for some in found]
    shown = compute_alignment(task, "the cats", "le chat")
    assert [c.strip() for c in shown.columns] == ["the", "cat", "s", "</s>"]
    assert [r.strip() for r in shown.rows] == ["le", "chat", "</s>"]
    assert main(["translate", str(run), "the cat", "--show"]) == 0
    again = read_marian(opus, read_config(opus), unk_id=1)
    torch.testing.assert_close(
        task.model.head.bias[2:], again.model.head.bias[2:]
    )  # what cannot be written stands before
    assert main(["export", str(run), "--to", "marian", "--out", str(tmp_path / "back")]) == 0
    assert "no tokenizer is written" in capsys.readouterr().err


def test_pieces_are_saved_and_read(opus, tmp_path):
    order = [10, 10, 1, 0, *range(2, 10)]
    words = read_vocabularies(opus, {}).build_tokenizers(order, order)
    words.source.save(tmp_path / "pieces.json")
    again = load_tokenizer(tmp_path / "pieces.json")
    assert isinstance(again, UnigramTokenizer)
    assert again == words.source
    assert again.encode("the  cats \udc80") == words.source.encode("the cats �")
    assert again.decode(again.encode("the cats")) == "the cats"
    with pytest.raises(UserError, match="imported with its model"):
        UnigramTokenizer.train(["a"])


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("source.spm", b"\xff\xff", "not a model of SentencePiece's"),
        ("source.spm", b"", "not a model of SentencePiece's"),
        ("source.spm", spm()[:-1], "not a model of SentencePiece's"),
        ("source.spm", message((1, message((2, 0.5)))), "not a model of SentencePiece's"),
        ("source.spm", spm(kind=2), "only unigrams"),
        ("source.spm", spm(piece_kind=6), "pieces of kind"),
        ("target.spm", spm(prefix=0), "treats spaces otherwise"),
        ("vocab.json", b'{"<unk>": "x"}', "not numbered"),
        ("vocab.json", b'{"<unk>": 1, "a": 1}', "one number"),
        ("vocab.json", b'{"a": 1}', "no <unk>"),
    ],
)
def test_tokens_that_make_no_sense(name, content, told, opus, tmp_path):
    (opus / name).write_bytes(content)
    with pytest.raises(UserError, match=told):
        import_model(opus, tmp_path / "run")
    assert not (tmp_path / "run").exists()


TEXTS = ["the lower cats are lowest", "naïve  café", "ﬁne ①\t two\u3000x", " a ", "ABC…", "日本 x"]


def test_pieces_against_sentencepiece_itself(tmp_path):
    library = pytest.importorskip("sentencepiece")
    import io

    learned = io.BytesIO()
    library.SentencePieceTrainer.train(
        sentence_iterator=iter(["the lower cats are lowest of all naïve cafés, aren't they?"] * 30),
        model_writer=learned,
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    (tmp_path / "source.spm").write_bytes(learned.getvalue())
    engine = library.SentencePieceProcessor(model_proto=learned.getvalue())
    model = read_sentencepiece_model(tmp_path / "source.spm")
    pieces = UnigramTokenizer(
        [p for p, _ in model.scored_pieces],
        scored_pieces=model.scored_pieces,
        charsmap=model.charsmap,
    )
    for text in TEXTS:
        expected = engine.encode(text, out_type=str)
        assert [t.replace(" ", "▁") for t in pieces.tokenize(text)] == expected
        assert pieces.join(expected) == engine.decode(expected)


@pytest.mark.parametrize("table", [b"\1", b"\0\0\0\0", b"\x05\0\0\0abcde", b"\x08\0\0\0abcd"])
def test_a_damaged_table_of_characters(table):
    with pytest.raises(UserError, match="damaged"):
        UnigramTokenizer(["a"], scored_pieces=[("a", -1.0)], charsmap=table)


def test_a_run_becomes_a_folder(tmp_path):
    words = WordTokenizer.train(["a b c d"], with_eos=True)
    model = build_translator(SMALL, len(words), len(words))
    notes = export_translator(model, TokenizerPair(words, words, True), "marian", tmp_path / "out")
    assert len(notes) == 2
    assert json.loads((tmp_path / "out" / "config.json").read_text())["eos_token_id"] == 3


@pytest.mark.parametrize("joint", [True, False])
def test_byte_pairs_come_back_with_their_model(joint, tmp_path, capsys):
    some, more = ["the cat sees two dogs"] * 20, ["die katze sieht zwei hunde"] * 20
    source = BytePairTokenizer.train(some + more if joint else some, 280, with_eos=True)
    target = source if joint else BytePairTokenizer.train(more, 275, with_eos=True)
    torch.manual_seed(3)
    table = SMALL | ({} if joint else {"share_embeddings": False})
    model = build_translator(table, len(source), len(target)).eval()
    words = TokenizerPair(source, target, True)
    assert export_translator(model, words, "marian", tmp_path / "theirs", ("en", "de")) == []
    assert main(["import", str(tmp_path / "theirs"), "--out", str(tmp_path / "ours")]) == 0
    back = load_as(Translation, tmp_path / "ours")
    assert back.tokenizers == words
    assert (back.recipe.data.source, back.recipe.data.target) == ("en", "de")
    held = back.model.state_dict()
    for name, weight in model.state_dict().items():
        torch.testing.assert_close(held[name], weight, rtol=0, atol=0)
    theirs = Engine.from_file(
        str(tmp_path / "theirs" / ("" if joint else "source") / "tokenizer.json")
    )
    assert theirs.encode("The CAT").ids == words.encode_source("The CAT")[:-1]


def test_byte_pairs_of_others_are_not_a_marians(opus, tmp_path):
    for name in ("vocab.json", "source.spm", "target.spm"):
        (opus / name).unlink()
    write_tokenizer(BytePairTokenizer.train(["the cat"], 280, with_eos=True), opus)
    with pytest.raises(UserError, match="as `workings export` writes them"):
        import_model(opus, tmp_path / "run")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"normalizer": {"type": "NFC"}}, "its normalizer cannot be read"),
        ({"normalizer": None}, "in small letters, or not, unlike"),
        ({"model": {"type": "BPE", "vocab": {}, "merges": []}}, "writes them"),
    ],
)
def test_byte_pairs_that_were_changed(change, told, tmp_path):
    source = BytePairTokenizer.train(["the cat sees two dogs"] * 20, 280, with_eos=True)
    target = BytePairTokenizer.train(["die katze sieht zwei hunde"] * 20, 275, with_eos=True)
    model = build_translator(SMALL | {"share_embeddings": False}, len(source), len(target))
    export_translator(model, TokenizerPair(source, target, True), "marian", tmp_path / "theirs")
    path = tmp_path / "theirs" / "target" / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(UserError, match=told):
        import_model(tmp_path / "theirs", tmp_path / "run")
    assert not (tmp_path / "run").exists()
