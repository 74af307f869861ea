"""Marian's tokens: `vocab.json`, and how SentencePiece's models split each language into them.

Or, where our own Transformers were saved as Marians, their byte pairs.
"""

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.data.byte_pair import BytePair
from workings.data.pieces import Pieces
from workings.data.tokenizer import Tokenizer
from workings.errors import UserError, brief, shown
from workings.files import read_bytes
from workings.hub.gpt2 import LARGEST_JSON, read_table
from workings.hub.gpt2_tokens import SMALL_LETTERS, TOKENIZER, byte_pairs
from workings.recipes import PairTokenizerConfig
from workings.storage import write_text
from workings.tasks.translation import Vocabularies

VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"
SETTINGS = "tokenizer_config.json"
_UNKNOWN = "<unk>"
_UNIGRAM = 1
_NORMAL, _OF_NO_TEXT = 1, (2, 3, 5)  # unknown, control, unused


@dataclass(frozen=True)
class Model:
    """What a SentencePiece model splits by: pieces and their scores, and a table of characters."""

    scored: list[tuple[str, float]]
    folding: bytes


@dataclass(frozen=True)
class Borrowed:
    """The numbers of both languages' tokens, how each is split, and what the languages are."""

    numbers: tuple[dict[str, int], dict[str, int]]
    models: tuple[Model, Model]
    unknown: int
    languages: tuple[str, str]

    def told(self, words: Vocabularies) -> PairTokenizerConfig:
        """Say what they are as a recipe says it."""
        return PairTokenizerConfig(kind="borrowed", size=len(words.target), joint=False)

    def words(self, source: Sequence[int], target: Sequence[int]) -> Vocabularies:
        """Our vocabularies, given their number of each of our tokens."""
        made = []
        for numbers, model, order in zip(self.numbers, self.models, (source, target), strict=True):
            names = {number: name for name, number in numbers.items()}
            some = [names.get(number, f"<unused {number}>") for number in order[4:]]
            made.append(Pieces(some, scored=model.scored, folding=model.folding))
        return Vocabularies(made[0], made[1])


@dataclass(frozen=True)
class OwnPairs:
    """Byte pairs of ours, where we wrote them: under our numbers, one file for both, or two."""

    places: tuple[Path, ...]
    languages: tuple[str, str]
    unknown: int = 2

    def told(self, words: Vocabularies) -> PairTokenizerConfig:
        """Say what they are as a recipe says it."""
        joint = len(self.places) == 1
        return PairTokenizerConfig(
            kind="byte-pair", size=len(words.target), joint=joint, lower=words.lower
        )

    def words(self, source: Sequence[int], target: Sequence[int]) -> Vocabularies:
        """Our vocabularies, given their number of each of our tokens."""
        places = self.places * 2 if len(self.places) == 1 else self.places
        (one, lower), (other, too) = map(_own, places, (source, target))
        if lower != too:
            raise UserError(f"{places[0]}: in small letters, or not, unlike {places[1]}")
        return Vocabularies(one, other, lower)


def _own(path: Path, order: Sequence[int]) -> tuple[Tokenizer, bool]:
    """A tokenizer of ours, and whether it makes small letters of capitals."""
    ids, merges = byte_pairs(path)
    folds = read_table(path).get("normalizer")
    whole = all(type(number) is int for number in ids.values())
    if not whole or not sorted(ids.values()) == list(order) == list(range(len(ids))):
        raise UserError(f"{path}: byte pairs of a Marian are read as `workings export` writes them")
    if folds not in (None, SMALL_LETTERS):
        raise UserError(f"{path}: its normalizer cannot be read, only {shown(SMALL_LETTERS)}")
    try:
        pieces = BytePair(sorted(ids, key=ids.__getitem__)[4:], merges=merges, stop=True)
    except UserError as error:
        raise UserError(f"{path}: {brief(str(error), 150)}") from None
    return pieces, folds is not None


def read_vocabularies(folder: Path, config: Mapping[str, Any]) -> Borrowed | OwnPairs:
    """Read the tokens that lie beside a Marian, as OPUS-MT's models have them, or as ours."""
    if not (folder / VOCABULARY).exists():
        apart = tuple(folder / side / TOKENIZER for side in ("source", "target"))
        for places in ((folder / TOKENIZER,), apart):
            if all(place.exists() for place in places):
                return OwnPairs(places, _languages(folder))
    numbers = [_numbers(folder / VOCABULARY)]
    two = config.get("share_encoder_decoder_embeddings", True) is not True
    numbers.append(_numbers(folder / TARGET_VOCABULARY) if two else numbers[0])
    unknown = {some.get(_UNKNOWN, -1) for some in numbers}
    if len(unknown) != 1 or -1 in unknown:
        raise UserError(f"{folder}: its vocabularies have no {_UNKNOWN}, or not under one number")
    models = [read_model(folder / name) for name in ("source.spm", "target.spm")]
    return Borrowed(
        (numbers[0], numbers[1]), (models[0], models[1]), unknown.pop(), _languages(folder)
    )


def _languages(folder: Path) -> tuple[str, str]:
    """What is translated into what, where somebody has written it down."""
    told = read_table(folder / SETTINGS) if (folder / SETTINGS).exists() else {}
    source, target = (
        name if isinstance(name := told.get(f"{side}_lang"), str) and name else side
        for side in ("source", "target")
    )
    return source, target


def write_languages(folder: Path, languages: tuple[str, str]) -> None:
    """Write down what is translated into what."""
    told = read_table(folder / SETTINGS) if (folder / SETTINGS).exists() else {}
    told |= dict(zip(("source_lang", "target_lang"), languages, strict=True))
    write_text(folder / SETTINGS, json.dumps(told, indent=2) + "\n")


def _numbers(path: Path) -> dict[str, int]:
    table = read_table(path)
    if any(type(n) is not int or n < 0 for n in table.values()):
        raise UserError(f"{path}: its tokens are not numbered")
    if len(set(table.values())) != len(table):
        raise UserError(f"{path}: two of its tokens have one number")
    return table


def read_model(path: Path) -> Model:
    """Read a unigram model of SentencePiece's, which is a message of protobuf's."""
    try:
        message = read_bytes(path, LARGEST_JSON)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    try:
        return _model(message)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except (ValueError, struct.error, LookupError, AttributeError, TypeError):
        raise UserError(f"{path}: not a model of SentencePiece's") from None


def _model(message: bytes) -> Model:
    scored, kinds, folding = [], set(), b""
    for field, value in _fields(message):
        if field == 1:
            piece = dict(_fields(value))
            kind = piece.get(3, _NORMAL)
            kinds.add(kind)
            if kind == _NORMAL:
                scored.append((piece[1].decode("utf-8"), float(piece.get(2, 0.0))))
        elif field == 2 and (found := dict(_fields(value)).get(3, _UNIGRAM)) != _UNIGRAM:
            raise UserError(f"a model of kind {found}: only unigrams ({_UNIGRAM}) can be read")
        elif field == 3:
            settings = dict(_fields(value))
            folding = settings.get(2, b"")
            if not all(settings.get(key, 1) for key in (3, 4, 5)):
                raise UserError("it treats spaces otherwise than usual, which cannot be read")
    if strange := kinds - {_NORMAL, *_OF_NO_TEXT}:
        raise UserError(f"pieces of kind {brief(str(sorted(strange)))}: they cannot be read")
    if not scored:
        raise ValueError
    return Model(scored, folding)


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a protobuf message: a number, and an integer, a float or bytes."""
    place = 0
    while place < len(message):
        key, place = _integer(message, place)
        field, wire = key >> 3, key & 7
        if wire == 0:
            value, place = _integer(message, place)
            yield field, value
        elif wire in (1, 5):
            size, form = (8, "<d") if wire == 1 else (4, "<f")
            yield field, struct.unpack_from(form, message, place)[0]
            place += size
        elif wire == 2:
            size, place = _integer(message, place)
            if place + size > len(message):
                raise ValueError
            yield field, message[place : place + size]
            place += size
        else:
            raise ValueError


def _integer(message: bytes, place: int) -> tuple[int, int]:
    """An integer in as many bytes as it needs, seven bits in each, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        byte = message[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
    raise ValueError
