"""Runs exported to folders in other formats, and folders imported as runs."""

import json
import shutil

import pytest
import torch
from tokenizers import Tokenizer as Engine

from workings.cli import main
from workings.data import BytePairTokenizer, CharacterTokenizer, WordTokenizer, load_tokenizer
from workings.data.tokenizers.base import TokenizerPair
from workings.data.tokenizers.unigram import UnigramTokenizer
from workings.decode import GREEDY, beam_search, generate
from workings.errors import UserError
from workings.interop.conversion import export_language_model, export_translator, import_model
from workings.interop.gpt2 import read_gpt2_tokenizer
from workings.interop.huggingface import read_config
from workings.interop.language_models import write_language_model
from workings.interop.marian import read_translator, write_translator
from workings.interop.model_card import RunRecord
from workings.interop.tokenizer_files import unique_token_names, write_tokenizer
from workings.interpret.attention import compute_alignment
from workings.models.language import build_language_model
from workings.models.translation import SentenceBatch, build_translator
from workings.modules import unique_state_dict
from workings.recipes import SearchConfig, TranslationDataConfig, TranslationRecipe
from workings.storage import read_tensors
from workings.tasks.translation import Translation
from workings.training.runs import load

GPT2 = {"d_model": 32, "layers": 2, "heads": 4, "positions": "learned", "max_positions": 24}
MARIAN = {"d_model": 16, "d_ff": 24, "layers": 2, "heads": 2, "norm": "post"}
ENGLISH, GERMAN = ["the cat sees two dogs"] * 20, ["die katze sieht zwei hunde"] * 20


def make_gpt2(vocab_size):
    torch.manual_seed(0)
    return build_language_model(GPT2, vocab_size).eval()


def make_marian(source_size, target_size, **changes):
    torch.manual_seed(0)
    return build_translator(MARIAN | changes, source_size, target_size).eval()


def make_tokenizers(is_shared):
    if is_shared:
        tokenizer = BytePairTokenizer.train(ENGLISH + GERMAN, 280, with_eos=True)
        return TokenizerPair(tokenizer, tokenizer, lower=True)
    source = BytePairTokenizer.train(ENGLISH, 280, with_eos=True)
    target = BytePairTokenizer.train(GERMAN, 275, with_eos=True)
    return TokenizerPair(source, target, lower=True)


# -- language models -------------------------------------------------------------------------------


def test_imported_gpt2_is_a_run(gpt2_tokens, tmp_path):
    folder, byte_pairs = gpt2_tokens
    vocab_size = len(byte_pairs) - 2
    model = make_gpt2(vocab_size)
    write_language_model(model, folder, "gpt2", bos_id=vocab_size - 1, eos_id=vocab_size - 1)
    run = tmp_path / "runs" / "imported"
    import_model(folder, run)
    assert {p.name for p in run.iterdir()} == {
        "config.toml",
        "environment.json",
        "model.safetensors",
        "tokenizer.json",
    }
    assert load_tokenizer(run / "tokenizer.json") == read_gpt2_tokenizer(folder, {}, vocab_size)
    weights = read_tensors(run / "model.safetensors")
    assert {n: t.tolist() for n, t in weights.items()} == {
        n: t.tolist() for n, t in unique_state_dict(model).items()
    }
    with pytest.raises(UserError, match="exists already: give another --out"):
        import_model(folder, run)
    shutil.rmtree(run)
    (folder / "vocab.json").unlink()
    with pytest.raises(UserError, match="no tokenizer"):
        import_model(folder, run)
    assert not run.exists()


def test_exported_gpt2_is_imported_unchanged(tmp_path):
    """Our byte-pair tokenizers have a beginning of a text, and no end."""
    tokenizer = BytePairTokenizer.train(["low lower lowest"] * 10, vocab_size=270)
    model = make_gpt2(len(tokenizer))
    export_language_model(model, tokenizer, "gpt2", tmp_path / "exported")
    import_model(tmp_path / "exported", tmp_path / "run")
    imported = load(tmp_path / "run")
    ids = torch.arange(20)[None]
    with torch.no_grad():
        assert torch.equal(imported.model(ids)[0], model(ids)[0])
    assert imported.tokenizer.encode("lower low") == tokenizer.encode("lower low")


def test_language_model_of_characters_is_exported_with_its_tokenizer(tmp_path):
    tokenizer = CharacterTokenizer.train(["abcdef"])
    model = make_gpt2(len(tokenizer))
    assert export_language_model(model, tokenizer, "gpt2", tmp_path / "a" / "b") == []
    engine = Engine.from_file(str(tmp_path / "a" / "b" / "tokenizer.json"))
    assert engine.encode("fad?").ids == tokenizer.encode("fad?")
    config = json.loads((tmp_path / "a" / "b" / "config.json").read_text())
    assert (config["bos_token_id"], config["eos_token_id"]) == (1, None)
    with pytest.raises(UserError, match="did you mean 'gpt2'"):
        export_language_model(model, tokenizer, "gpt-2", tmp_path / "c")
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("kind", [CharacterTokenizer, BytePairTokenizer])
def test_ctranslate2_reads_an_exported_language_model(kind, tmp_path):
    library = pytest.importorskip("ctranslate2")
    tokenizer = kind.train(["<s>low lower lowest naïve 🙂\udc80</s>"] * 20, vocab_size=300)
    torch.manual_seed(0)
    model = build_language_model({"d_model": 16, "layers": 2, "heads": 2}, len(tokenizer)).eval()
    notes = export_language_model(model, tokenizer, "ctranslate2", tmp_path / "out")
    assert notes == []
    prompt = torch.tensor([tokenizer.encode("lower")])
    names = unique_token_names(tokenizer)
    generator = library.Generator(str(tmp_path / "out"), device="cpu")
    (result,) = generator.generate_batch(
        [[names[k] for k in prompt[0]]], max_length=20, include_prompt_in_result=False, end_token=[]
    )
    expected = [int(token) for token, _ in generate(model, prompt, 20, GREEDY)]
    assert result.sequences_ids[0] == expected
    assert result.sequences[0] == [names[k] for k in expected]


# -- translators -----------------------------------------------------------------------------------


def test_imported_marian_translates(opus, tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["import", str(opus), "--out", str(run)]) == 0
    task = load(run, Translation)
    assert isinstance(task.tokenizers.source, UnigramTokenizer)
    assert task.tokenizers.encode_source(">>fr<< the cats!") == [11, 5, 7, 9, 2, 3]
    assert (task.recipe.data.source, task.recipe.data.target) == ("en", "fr")
    texts = ["the cat", "cats", "le chat the cats"]
    translations = list(task.translate(texts))
    # Padding and start are never generated.
    assert all(not {0, 1} & set(t.tokens) for best in translations for t in best)
    assert main(["evaluate", str(run)]) == 2
    assert "an imported model has no test data of its own: --data FILE" in capsys.readouterr().err
    assert main(["translate", str(run), *texts]) == 0
    assert capsys.readouterr().out.splitlines() == [best[0].text for best in translations]
    alignment = compute_alignment(task, "the cats", "le chat")
    assert [c.strip() for c in alignment.columns] == ["the", "cat", "s", "</s>"]
    assert [r.strip() for r in alignment.rows] == ["le", "chat", "</s>"]
    assert main(["translate", str(run), "the cat", "--show"]) == 0
    marian = read_translator(opus, read_config(opus), unk_id=1)
    torch.testing.assert_close(task.model.head.bias[2:], marian.model.head.bias[2:])
    assert main(["export", str(run), "--to", "marian", "--out", str(tmp_path / "back")]) == 0
    assert "no tokenizer is written" in capsys.readouterr().err


@pytest.mark.parametrize("is_shared", [True, False])
def test_exported_marian_is_imported_unchanged(is_shared, tmp_path):
    tokenizers = make_tokenizers(is_shared)
    sizes = len(tokenizers.source), len(tokenizers.target)
    model = make_marian(*sizes, share_embeddings=is_shared)
    folder = tmp_path / "exported"
    data = TranslationDataConfig(source="en", target="de")
    record = RunRecord(TranslationRecipe(data=data, search=SearchConfig(length_penalty=0.0)))
    notes = export_translator(model, tokenizers, "marian", folder, record)
    assert len(notes) == (not is_shared)
    assert main(["import", str(folder), "--out", str(tmp_path / "run")]) == 0
    imported = load(tmp_path / "run", Translation)
    assert imported.tokenizers == tokenizers
    assert (imported.recipe.data.source, imported.recipe.data.target) == ("en", "de")
    weights = imported.model.state_dict()
    for name, weight in model.state_dict().items():
        torch.testing.assert_close(weights[name], weight, rtol=0, atol=0)
    engine = Engine.from_file(str(folder / ("" if is_shared else "source") / "tokenizer.json"))
    assert engine.encode("The CAT").ids == tokenizers.encode_source("The CAT")


@pytest.mark.parametrize("kind", [WordTokenizer, CharacterTokenizer])
def test_exported_words_and_characters_are_imported(kind, tmp_path):
    tokenizer = kind.train(["a bc d, l'eau"], with_eos=True)
    model = make_marian(len(tokenizer), len(tokenizer))
    tokenizers = TokenizerPair(tokenizer, tokenizer, kind is WordTokenizer)
    export_translator(model, tokenizers, "marian", tmp_path / "out")
    import_model(tmp_path / "out", tmp_path / "run")
    assert load(tmp_path / "run", Translation).tokenizers == tokenizers


def test_foreign_byte_pair_tokenizer_of_a_marian_is_rejected(opus, tmp_path):
    for name in ("vocab.json", "source.spm", "target.spm"):
        (opus / name).unlink()
    write_tokenizer(BytePairTokenizer.train(["the cat"], 280, with_eos=True), opus)
    with pytest.raises(UserError, match=r"ids do not fit config\.json"):
        import_model(opus, tmp_path / "run")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"normalizer": {"type": "NFC"}}, "its normalizer is not supported"),
        ({"normalizer": None}, "expected that both lowercase texts, or neither"),
        ({"model": {"type": "BPE", "vocab": {}, "merges": []}}, "lacks 256 of the 256 bytes"),
        ({"model": {"type": "WordLevel", "vocab": {"a": 1}}}, "`workings export` writes"),
    ],
)
def test_changed_byte_pair_tokenizer_is_rejected(change, message, tmp_path):
    tokenizers = make_tokenizers(is_shared=False)
    model = make_marian(len(tokenizers.source), len(tokenizers.target), share_embeddings=False)
    export_translator(model, tokenizers, "marian", tmp_path / "exported")
    path = tmp_path / "exported" / "target" / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(UserError, match=message):
        import_model(tmp_path / "exported", tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("is_shared", [True, False])
def test_ctranslate2_reads_an_exported_translator(is_shared, tmp_path):
    library = pytest.importorskip("ctranslate2")
    tokenizers = make_tokenizers(is_shared)
    sizes = len(tokenizers.source), len(tokenizers.target)
    model = make_marian(*sizes, share_embeddings=is_shared)
    folder = tmp_path / "out"
    assert len(export_translator(model, tokenizers, "ctranslate2", folder)) == (not is_shared)
    text = "The CAT"
    tokenizer_file = folder / ("" if is_shared else "source") / "tokenizer.json"
    tokens = Engine.from_file(str(tokenizer_file)).encode(text).tokens
    engine = library.Translator(str(folder), device="cpu")
    (result,) = engine.translate_batch(
        [tokens], beam_size=3, min_decoding_length=0, length_penalty=0
    )
    ids = torch.tensor([tokenizers.encode_source(text)])
    source = SentenceBatch(ids, torch.tensor([ids.shape[1]]))
    with torch.no_grad():
        ((best, *_),) = beam_search(model, source, stop=3, max_length=256, beams=3)
    assert result.hypotheses[0] == [tokenizers.target.id_to_token(k) for k in best.tokens]


def test_translators_that_cannot_be_exported(tmp_path):
    words = WordTokenizer.train(["a b c"], with_eos=True)
    model = make_marian(6, len(words), share_embeddings=False)
    with pytest.raises(
        UserError, match="for a translator, expected one of ctranslate2, onnx, marian, pegasus"
    ):
        export_translator(model, TokenizerPair(words, words), "gpt2", tmp_path / "out")
    pytest.importorskip("ctranslate2")
    # A word that is spelled like the end token renames the latter.
    tokenizers = TokenizerPair(WordTokenizer(["</s>", "a"], with_eos=True), words)
    with pytest.raises(UserError, match="token 3 is '<3>' in the source's vocabulary and '</s>'"):
        export_translator(model, tokenizers, "ctranslate2", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_imported_marian_with_bias_keeps_it(tmp_path):
    model = make_marian(40, 40, output_bias=True)
    torch.nn.init.normal_(model.head.bias)
    write_translator(model, tmp_path)
    imported = read_translator(tmp_path, read_config(tmp_path), unk_id=2)
    assert torch.equal(imported.model.head.bias, model.head.bias)
