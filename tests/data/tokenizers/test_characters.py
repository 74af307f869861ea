from workings.data import CharacterTokenizer


def test_encode_and_decode() -> None:
    tokenizer = CharacterTokenizer.train(["hello", "Hello"])
    assert tokenizer.decode(tokenizer.encode("Hello")) == "Hello"
    assert tokenizer.decode(tokenizer.encode("Hex")) == "He<unk>"
    assert tokenizer.find_spans("hé") == [(0, 1), (1, 2)]


def test_rare_characters_are_left_out() -> None:
    assert len(CharacterTokenizer.train(["hello" * 9 + "x"], min_count=2)) == 3 + 4


def test_surrogates_are_characters() -> None:
    tokenizer = CharacterTokenizer.train(["a\ud800"])
    assert tokenizer.decode(tokenizer.encode("a\ud800")) == "a\ud800"
