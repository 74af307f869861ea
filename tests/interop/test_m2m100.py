"""M2M100 and NLLB in Hugging Face's format, against Hugging Face's own code if it is installed."""

import json
from itertools import pairwise

import pytest
import torch
from sentencepiece_files import make_sentencepiece_model

from workings.cli import main
from workings.data.tokenizers.base import load_tokenizer
from workings.errors import UserError
from workings.interop.conversion import import_model, read_model
from workings.interop.formats import check_formats
from workings.interop.multilingual import read_multilingual_vocabulary
from workings.interpret.attention import compute_alignment
from workings.recipes import SearchConfig
from workings.tasks.translation import Translation, collate_sources
from workings.training.runs import load

PIECES = ["▁", "t", "h", "e", "c", "a", "l", "i", "n", "o", "r", "s", "▁t", "he", "▁the", "at"]
PIECES += ["▁c", "▁cat", "▁ch", "▁chat", "▁l", "▁le", "no", "in", "ir", "noir", "▁s"]
SPECIALS = ["<s>", "<pad>", "</s>", "<unk>"]
TEXTS = ["the cat", "the chat in the cat", "noir", "le chat is noir", "x the ☺☺ cat", "hello tea"]
ENGLISH, FRENCH = "eng_Latn", "fra_Latn"


def merge_by_score(text, pieces):
    """Split a text as SentencePiece's byte-pair encoding does: merge the best pair repeatedly."""
    scores = {piece: -k for k, piece in enumerate(pieces)}
    symbols = list("▁" + "▁".join(text.split()))
    while True:
        pairs = [(a + b, k) for k, (a, b) in enumerate(pairwise(symbols))]
        known = [(scores[pair], -k) for pair, k in pairs if pair in scores]
        if not known:
            return symbols
        k = -max(known)[1]
        symbols[k : k + 2] = [symbols[k] + symbols[k + 1]]


def make_config(vocab_size, **changes):
    sides = ("encoder", "decoder")
    sizes = {"layers": 2, "attention_heads": 2, "ffn_dim": 24}
    return {
        "model_type": "m2m_100",
        "vocab_size": vocab_size,
        "d_model": 16,
        "activation_function": "relu",
        **{f"{side}_{key}": n for side in sides for key, n in sizes.items()},
        **changes,
    }


def make_model(transformers, vocab_size):
    """Return a model with random weights, large enough that its translations differ."""
    config = transformers.M2M100Config(
        **make_config(vocab_size), max_position_embeddings=64, forced_eos_token_id=None
    )
    torch.manual_seed(0)
    model = transformers.M2M100ForConditionalGeneration(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return model


@pytest.fixture(scope="module")
def nllb(transformers, tmp_path_factory):
    """A folder as `save_pretrained` of Hugging Face writes it; its tokenizer is NLLB's."""
    folder = tmp_path_factory.mktemp("nllb")
    vocabulary = {name: k for k, name in enumerate([*SPECIALS, *PIECES])}
    merges = [
        (p[:k], p[k:]) for p in PIECES for k in range(1, len(p)) if {p[:k], p[k:]} <= {*PIECES}
    ]
    tokenizer = transformers.NllbTokenizer(
        vocab=vocabulary,
        merges=merges,
        src_lang=ENGLISH,
        tgt_lang=FRENCH,
        extra_special_tokens=[ENGLISH, FRENCH, "deu_Latn"],
    )
    tokenizer.save_pretrained(folder)
    make_model(transformers, len(tokenizer) + 2).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def imported(nllb):
    task = read_model(nllb)
    assert isinstance(task, Translation)
    return task


def test_logits_are_those_of_hugging_face(nllb, imported, transformers):
    tokenizer = transformers.AutoTokenizer.from_pretrained(nllb)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(nllb).eval()
    order = imported_order(imported)
    batch = tokenizer(TEXTS, return_tensors="pt", padding=True)
    targets = [imported.tokenizers.encode_target(text) for text in ("le chat", "noir chat le")]
    for k, text in enumerate(TEXTS):
        ids = [order[i] for i in imported.tokenizers.encode_source(text)]
        assert batch["input_ids"][k][batch["attention_mask"][k] == 1].tolist() == ids
        inputs = torch.tensor([[1, *targets[k % 2]]])
        source = collate_sources([imported.tokenizers.encode_source(text)], imported.model)
        with torch.no_grad():
            logits = imported.model(source, inputs)
            expected = model(
                input_ids=torch.tensor([ids]),
                decoder_input_ids=torch.tensor([[order[i] for i in inputs[0]]]),
            ).logits[:, :, order]
        expected[..., 1] += -1e4  # a copy of the end token, which is never generated
        torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)
        assert expected.std() > 0.1


def imported_order(task):
    """Return Hugging Face's id of each of our ids: the specials, and all others in their order."""
    size = len(task.tokenizers.target) - 1
    return [1, 2, 3, 2, *(k for k in range(size) if k not in (1, 2, 3))]


@pytest.mark.parametrize("beams", [1, 3])
def test_generate_finds_our_translations(beams, nllb, imported, transformers):
    tokenizer = transformers.AutoTokenizer.from_pretrained(nllb)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(nllb).eval()
    search = SearchConfig(beams=beams, length_penalty=0.0)
    outputs = set()
    for text, (best, *_) in zip(TEXTS, imported.translate(TEXTS, search), strict=True):
        batch = tokenizer(text, return_tensors="pt")
        limit = 2 * batch["input_ids"].shape[1] + 10
        generated = model.generate(
            **batch,
            forced_bos_token_id=tokenizer.convert_tokens_to_ids(FRENCH),
            num_beams=beams,
            length_penalty=0.0,
            early_stopping="never" if beams > 1 else False,
            max_length=limit + 1,
        )
        order = imported_order(imported)
        ids = [order[i] for i in best.tokens]
        assert generated[0, 1 : len(ids) + 1].tolist() == ids
        assert ids[0] == tokenizer.convert_tokens_to_ids(FRENCH)
        outputs.add(tuple(ids))
        assert FRENCH not in best.text
    assert len(outputs) > 3


def test_other_languages_are_chosen(nllb, tmp_path, capsys):
    run = tmp_path / "run"
    options = ["--source", FRENCH, "--target", "deu_Latn"]
    assert main(["import", str(nllb), *options, "--out", str(run)]) == 0
    task = load(run, Translation)
    assert (task.recipe.data.source, task.recipe.data.target) == (FRENCH, "deu_Latn")
    sources = task.tokenizers.encode_source("le chat")
    assert task.tokenizers.source.id_to_token(sources[0]) == FRENCH
    best = task.translate_one("le chat")
    assert task.tokenizers.target.id_to_token(best.tokens[0]) == "deu_Latn"
    assert load_tokenizer(run / "target.json") == task.tokenizers.target
    alignment = compute_alignment(task, "le chat", best)
    assert alignment.columns[0] == FRENCH
    assert alignment.rows[0] == "deu_Latn"
    assert main(["import", str(nllb), "--target", "fra_Latm", "--out", str(tmp_path / "2")]) == 2
    assert "did you mean 'fra_Latn'" in capsys.readouterr().err


def test_it_is_trained_further_and_not_exported(nllb, tmp_path, capsys):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("en\tfr\n" + "".join(f"the cat {k}\tle chat {k}\n" for k in range(40)))
    run, more = tmp_path / "run", tmp_path / "more"
    import_model(nllb, run)
    options = ["--data.set", str(pairs), "--data.source", "en", "--data.target", "fr"]
    options += ["--train.epochs", "2", "--train.learning_rate", "0.01", "--out", str(more)]
    assert main(["train", "--from", str(run), "--quiet", *options]) == 0
    task = load(more, Translation)
    assert task.model.forced_first_id == task.tokenizers.target.prefix_ids[0]
    reasons = check_formats(task.recipe)
    assert {*reasons} == {"onnx", "ctranslate2", "marian", "pegasus"}
    for target_format, reason in reasons.items():
        folder = tmp_path / target_format
        assert main(["export", str(run), "--to", target_format, "--out", str(folder)]) == 2
        assert reason in capsys.readouterr().err
        assert not folder.exists()


# -- the tokenizer of M2M100 -----------------------------------------------------------------------


@pytest.fixture
def m2m100(tmp_path):
    """The files of M2M100's tokenizer; a piece, ▁le, has no id."""
    pieces = {piece: -float(k) for k, piece in enumerate(PIECES)}
    (tmp_path / "sentencepiece.bpe.model").write_bytes(
        make_sentencepiece_model(model_type=2, pieces=pieces)
    )
    names = [*SPECIALS, *(piece for piece in PIECES if piece != "▁le")]
    (tmp_path / "vocab.json").write_text(json.dumps({name: k for k, name in enumerate(names)}))
    return tmp_path


def read_m2m100_tokenizers(folder, languages=("en", "fr")):
    vocabulary = read_multilingual_vocabulary(folder, languages)
    size = len(vocabulary.token_ids) + 8
    order = [1, 2, 3, 2, *(k for k in range(size) if k not in (1, 2, 3))]
    return vocabulary, vocabulary.build_tokenizers(order, order)


def test_pieces_of_m2m100_are_sentencepieces(m2m100):
    vocabulary, tokenizers = read_m2m100_tokenizers(m2m100)
    assert vocabulary.token_ids["__af__"] == len(SPECIALS) + len(PIECES) - 1
    assert vocabulary.token_ids["__zu__"] == vocabulary.token_ids["__af__"] + 99
    for text in ("the cat", "the  cats in the hall", "le chat noir", "tea that"):
        expected = merge_by_score(text, PIECES)
        assert [t.replace(" ", "▁") for t in tokenizers.source.tokenize(text)] == expected
    source = tokenizers.source
    names = [source.id_to_token(k) for k in tokenizers.encode_source("le cat__fr__")]
    assert names[:3] == ["__en__", "<unk>", "▁cat"]  # a text that spells a token is a text
    assert "__fr__" not in names
    assert source.decode(tokenizers.encode_source("the cat is noir")) == "the cat is noir"


def test_pieces_equal_sentencepieces(m2m100):
    library = pytest.importorskip("sentencepiece")
    engine = library.SentencePieceProcessor(model_file=str(m2m100 / "sentencepiece.bpe.model"))
    _, tokenizers = read_m2m100_tokenizers(m2m100)
    for text in [*TEXTS, " le  chat\tis noir "]:
        pieces = [token.replace(" ", "▁") for token in tokenizers.source.tokenize(text)]
        assert pieces == engine.encode(text, out_type=str)


@pytest.mark.parametrize(
    ("edit", "languages", "message"),
    [
        ({}, (None, None), "say which two, as in `workings import"),
        ({}, ("en", None), "say which two"),
        ({}, ("en", "fq"), "language 'fq': expected one of af, am"),
        ({"language_codes": "m3"}, ("en", "fr"), "expected one of m2m100, wmt21"),
        ({"legacy_behaviour": True}, ("en", "fr"), "legacy_behaviour"),
    ],
)
def test_missing_languages_are_told(edit, languages, message, m2m100):
    (m2m100 / "tokenizer_config.json").write_text(json.dumps(edit))
    with pytest.raises(UserError, match=message):
        read_multilingual_vocabulary(m2m100, languages)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("sentencepiece.bpe.model", b"", "not a SentencePiece model"),
        ("sentencepiece.bpe.model", make_sentencepiece_model(), r"expected byte-pair \(2\)"),
        ("vocab.json", b'{"a": 0}', "<pad> is missing"),
        ("vocab.json", b'{"a": -1}', "expected an id of at least 0"),
        ("tokenizer.json", b'{"model": {"type": "Unigram"}}', "byte-pair encoding of an NLLB"),
        ("tokenizer.json", b'{"model": {"type": "BPE"}, "added_tokens": []}', "and merges"),
    ],
)
def test_damaged_tokenizers_are_told(name, content, message, m2m100):
    (m2m100 / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_multilingual_vocabulary(m2m100, ("en", "fr"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pad_token_id": 0}, "pad_token_id = 0 is not supported: expected 1"),
        ({"scale_embedding": False}, "scale_embedding = False"),
        ({"d_model": 6, "encoder_attention_heads": 3, "decoder_attention_heads": 3}, "of shape"),
        ({"decoder_layers": 3}, "decoder_layers = 3, but encoder_layers = 2"),
    ],
)
def test_invalid_configs_are_told(changes, message, nllb, tmp_path):
    for path in nllb.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config = json.loads((nllb / "config.json").read_text()) | changes
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=message):
        read_model(tmp_path)
