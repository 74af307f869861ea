"""Sentences in, translations out: searched for, spelt, and unknown words taken from the source."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Protocol
from unicodedata import category

import torch
from torch import Tensor

from workings.data.batching import batches, pad
from workings.data.tokenizer import Tokenizer
from workings.data.words import Words
from workings.decode.beam import Hypothesis, beam_search
from workings.decode.sample import Sampling
from workings.models.translators import PAD, START, Sentences, Translator
from workings.recipes import SearchConfig
from workings.tasks.alignment import cross_weights
from workings.tasks.writing import Written, drawn, stop_of

AT_ONCE = 2**14  # tokens of sources and beams in a batch
WAITING = 2000  # sentences that are sorted by length together
LONGEST = 256  # tokens of a sentence: whoever writes more on a line writes no sentence
LETTERS = 32  # in a token, at most, when a text is cut
_SENTENCE_ENDS = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])\s*")


@dataclass(frozen=True)
class Vocabularies:
    """How the sentences of two languages become tokens; `lower`: in small letters."""

    source: Tokenizer
    target: Tokenizer
    lower: bool = False

    def cased(self, text: str) -> str:
        """A text as it is read: in small letters, if these are all there are."""
        return text.lower() if self.lower else text

    def read(self, text: str) -> list[int]:
        """The ids of a source, with a stop: a sentence may be empty, but has an end."""
        return [*self.source.encode(self.cased(text)), stop_of(self.source)]

    def wrote(self, text: str) -> list[int]:
        """The ids of a translation, without start and stop."""
        return self.target.encode(self.cased(text))


class Search(Protocol):
    """What finds the best translations: `decode.beam.beam_search`, or who stands in its place."""

    def __call__(
        self,
        source: Sentences,
        *,
        stop: int,
        longest: Sequence[int],
        beams: int,
        length_penalty: float,
    ) -> list[list[Hypothesis]]: ...


def translate(
    model: Translator,
    words: Vocabularies,
    texts: Iterable[str],
    how: SearchConfig,
    sampling: Sampling | None = None,
    by: Search | None = None,
) -> Iterator[list[Written]]:
    """Translate texts as they come, in their order: of each the best, best first; or one drawn.

    Nothing is translated by nothing. What is no sentence any more is translated in stretches.
    """
    search = by or partial(beam_search, model)
    waiting = iter(texts)
    while some := list(islice(waiting, WAITING)):
        parts = [stretches(words, text) for text in some]
        flat = [part for stretched in parts for part in stretched]
        found = iter(_translated(model, words, flat, how, sampling, search))
        for stretched in parts:
            yield _together(list(islice(found, len(stretched))))


def _translated(
    model: Translator,
    words: Vocabularies,
    texts: Sequence[str],
    how: SearchConfig,
    sampling: Sampling | None,
    search: Search,
) -> list[list[Written]]:
    """Translate texts together, those of like length in a batch."""
    found = {k: [Written("", (), 0.0, 0.0)] for k, text in enumerate(texts) if not text.strip()}
    asked = [k for k in range(len(texts)) if k not in found]
    encoded = [words.read(texts[k]) for k in asked]
    room = max(AT_ONCE // how.beams, 1)
    for batch in batches([len(ids) for ids in encoded], tokens=room, seed=0, shuffle=False):
        source = sentences([encoded[k] for k in batch], model)
        longest = [2 * len(encoded[k]) + 10 for k in batch]
        if sampling is None:
            hypotheses = search(
                source,
                stop=stop_of(words.target),
                longest=longest,
                beams=how.beams,
                length_penalty=how.length_penalty,
            )
        else:
            hypotheses = drawn(model, source, stop_of(words.target), sampling, longest)
        for k, some_of_it in zip((asked[b] for b in batch), hypotheses, strict=True):
            found[k] = [
                Written(spelt(model, words, texts[k], h), h.tokens, h.log_probability, h.score)
                for h in some_of_it
            ]
    return [found[k] for k in range(len(texts))]


def stretches(words: Vocabularies, text: str) -> list[str]:
    """Cut a text of more than LONGEST tokens into its sentences, and what is longer between words.

    Each begins with the language that is asked for, if one is.
    """
    language = words.source.language(text)
    rest, room = text[len(language) :], LONGEST - bool(language)
    if _beginning(words, rest, room) == len(rest):
        return [text]
    parts = []
    for sentence in map(str.strip, _SENTENCE_ENDS.split(rest)):
        while sentence:
            end = _beginning(words, sentence, room)
            parts.append(language + sentence[:end])
            sentence = sentence[end:].lstrip()
    return parts or [text]


def _beginning(words: Vocabularies, text: str, room: int) -> int:
    """How many letters of a text have at most so many tokens, whole words where there are any."""
    if len(text.encode("utf-8", "replace")) <= room:  # a token is a byte at least
        return len(text)
    spans = words.source.spans(text[: LONGEST * LETTERS])
    if len(spans) <= room and len(text) <= LONGEST * LETTERS:
        return len(text)
    cut = spans[room][0] if len(spans) > room else LONGEST * LETTERS
    return max((k for k in range(cut // 2, cut) if text[k].isspace()), default=cut)


def _together(parts: list[list[Written]]) -> list[Written]:
    """Put the translations of stretches together: the best of each, the second best and so on."""
    if len(parts) == 1:
        return parts[0]
    return [
        Written(
            " ".join(part.text for part in ranked),
            tuple(token for part in ranked for token in part.tokens),
            sum(part.log_probability for part in ranked),
            sum(part.score for part in ranked),
        )
        for ranked in zip(*parts, strict=False)
    ]


def sentences(encoded: Sequence[Sequence[int]], model: Translator) -> Sentences:
    """Put encoded sentences into a batch where the model is."""
    device = next(model.parameters()).device
    ids, lengths = pad([list(ids) for ids in encoded])
    return Sentences(ids.to(device), lengths.to(device))


def spelt(model: Translator, words: Vocabularies, source: str, found: Hypothesis) -> str:
    """Write a translation as text.

    A word that is unknown to the target's vocabulary is the word of the source that the model
    looked at most when it chose it, if it looks at all: a name, most of the time. Much is looked
    at commas and full stops, too, but none of them is an unknown word.
    """
    unknown = words.target.unknown
    if not isinstance(words.target, Words) or unknown not in found.tokens:
        return words.target.decode(found.tokens).strip()
    seen = _looked_at(model, words, source, found.tokens)
    copied = words.source.tokens(source)
    places = [k for k, word in enumerate(copied) if not _is_punctuation(word)]
    if seen is None or not places:
        return words.target.decode(found.tokens)
    spelling = [
        copied[places[int(seen[k, places].argmax())]]
        if token == unknown
        else words.target.token(token)
        for k, token in enumerate(found.tokens)
        if token not in (PAD, START)
    ]
    return words.target.join(spelling)


def _is_punctuation(word: str) -> bool:
    """Say whether a word has nothing but punctuation marks.

    >>> [_is_punctuation(word) for word in (",", "...", "t-shirt", "☺")]
    [True, True, False, False]
    """
    return all(category(character).startswith("P") for character in word)


def _looked_at(
    model: Translator, words: Vocabularies, source: str, tokens: Sequence[int]
) -> Tensor | None:
    """Mean weights over layers and heads, `[tokens, source]`, without the source's stop."""
    device = next(model.parameters()).device
    target = torch.tensor([[START, *tokens]], device=device)
    layers = cross_weights(model, sentences([words.read(source)], model), target)
    if not layers:
        return None
    return torch.stack(layers).mean((0, 2))[0, :-1, :-1]
