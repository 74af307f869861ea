"""Tokenizers in Hugging Face's format, called as its users call them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Engine

from workings.data import BytePairTokenizer, CharacterTokenizer, WordTokenizer
from workings.data.tokenizers.byte_pair import GPT2Tokenizer
from workings.interop.tokenizer_files import read_tokenizer, unique_token_names, write_tokenizer

TEXTS = [
    "low lower lowest, naïve 🙂 <s>",
    "The cat's hat: don't (ever) touch l'eau! ΟΔΟΣ",
    'a "quoted" line<br />break; and\n\ttabs \x1c two  spaces',
]
HARD_TEXTS = [
    *TEXTS,
    "",
    " ",
    "</s>",
    "a </s> <pad> <s>x <unk>",
    '<br/><br /><b"r />',
    "İstanbul ΑΣ ΣΑ",
    "\x85\xa0\u3000\u2028low",
    "it's 1234!",
    "\x00ÿ",
]
PARTS = st.sampled_from(
    [*HARD_TEXTS, "low", "cat", " ", "'", "(", ")", '"', "<br />", "<pad>", ".", "\n", "Σ "]
)
KINDS = [BytePairTokenizer, WordTokenizer, CharacterTokenizer]


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request):
    return request.param.train(TEXTS * 5, vocab_size=300, with_eos=True)


@pytest.fixture(scope="module")
def folder(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp(tokenizer.kind)
    assert write_tokenizer(tokenizer, folder, add_eos=True, max_length=1024)
    return folder


@pytest.fixture(scope="module")
def hf_tokenizer(folder, transformers):
    return transformers.AutoTokenizer.from_pretrained(folder)


@settings(max_examples=60)
@given(st.lists(PARTS | st.text(max_size=4), max_size=6).map("".join))
def test_auto_tokenizer_encodes_and_decodes_the_same(tokenizer, hf_tokenizer, text):
    ids = tokenizer.encode(text)
    assert hf_tokenizer(text)["input_ids"] == [*ids, 3]
    known = [k for k in ids if k != tokenizer.unk_id]  # ours keeps <unk>
    decoded = hf_tokenizer.decode([*ids, 3, 0], skip_special_tokens=True)
    assert decoded == tokenizer.decode(known).strip()


@settings(max_examples=40)
@given(st.lists(st.integers(4, 10**6), max_size=8))
def test_any_ids_are_decoded_the_same(tokenizer, hf_tokenizer, numbers):
    ids = [4 + n % (len(tokenizer) - 4) for n in numbers]
    text = hf_tokenizer.decode([1, *ids, 3], skip_special_tokens=True)
    assert text == tokenizer.decode(ids).strip()


def test_batches_are_padded_and_masked(tokenizer, hf_tokenizer):
    batch = hf_tokenizer(["low", TEXTS[1]], return_tensors="pt", padding=True)
    assert batch.keys() == {"input_ids", "attention_mask"}
    first = [*tokenizer.encode("low"), 3]
    assert batch["input_ids"][0].tolist()[: len(first) + 1] == [*first, 0]
    assert batch["attention_mask"].sum(1).tolist() == [
        len(tokenizer.encode(text)) + 1 for text in ("low", TEXTS[1])
    ]
    assert (hf_tokenizer.pad_token_id, hf_tokenizer.eos_token_id) == (0, 3)
    assert (hf_tokenizer.unk_token_id, hf_tokenizer.model_max_length) == (2, 1024)


def test_written_tokenizer_is_read_back(tokenizer, folder):
    reread, is_lower = read_tokenizer(folder / "tokenizer.json")
    assert (reread, is_lower) == (tokenizer, tokenizer.kind == "words")


@pytest.mark.parametrize("kind", [BytePairTokenizer, CharacterTokenizer])
def test_lowercasing_is_written(kind, tmp_path):
    tokenizer = kind.train([text.lower() for text in TEXTS], vocab_size=300, with_eos=True)
    write_tokenizer(tokenizer, tmp_path, lowercase=True)
    engine = Engine.from_file(str(tmp_path / "tokenizer.json"))
    for text in HARD_TEXTS[3:]:
        if "<" not in text:  # only `AutoTokenizer` leaves special tokens that a text spells
            assert engine.encode(text.upper()).ids == tokenizer.encode(text.upper().lower())
    assert read_tokenizer(tmp_path / "tokenizer.json") == (tokenizer, True)


def test_tokenizer_of_gpt2_pads_with_its_only_special_token(transformers, tmp_path):
    byte_pairs = BytePairTokenizer.train(TEXTS, vocab_size=280)
    vocabulary = [*byte_pairs.to_dict()["vocabulary"], "<|endoftext|>"]
    letters = [t for t in vocabulary if t != "<|endoftext|>"]
    tokenizer = GPT2Tokenizer(letters, merges=byte_pairs.merges, end_of_text_id=0)
    write_tokenizer(tokenizer, tmp_path, padding_side="left")
    hf_tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    batch = hf_tokenizer(["low", "lower low"], padding=True)
    assert batch["input_ids"][0][-1] == tokenizer.encode("low")[-1]
    assert batch["input_ids"][0][0] == hf_tokenizer.pad_token_id == 0


def test_names_are_unique_if_a_token_is_spelled_like_a_special_one():
    letters = BytePairTokenizer.train([""], vocab_size=259).to_dict()["vocabulary"]
    vocabulary = [*letters, "<s>", "<1>"]
    names = unique_token_names(BytePairTokenizer(vocabulary, merges=[]))
    assert names == ["<pad>", "<<1>>", "<unk>", *vocabulary]
