"""Translation: from pairs of sentences and a recipe to a model that translates."""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workings.crew import Crew
from workings.data.batching import pad, pair_batches
from workings.data.byte_pair import BytePair
from workings.data.download import Progress
from workings.data.loose_pairs import LoosePairs
from workings.data.pairs import Pair, PairSplits, load_pairs, load_test, pair_set_names
from workings.data.tokenizers import load_tokenizer, train_tokenizer
from workings.decode.beam import beam_search
from workings.decode.sample import Sampling
from workings.errors import UserError
from workings.models.translators import Sentences, Translator, build_translator
from workings.recipes import SearchConfig, TranslateRecipe
from workings.scores.bleu import score, tokenised_bleu
from workings.tasks.translation import Search, Vocabularies, translate
from workings.tasks.weights import with_weights
from workings.tasks.writing import Writing, Written, framed, stop_of

PARTS = ("train", "validation", "test")
ELSEWHERE = "elsewhere"  # where an imported model was trained
GREEDILY = SearchConfig(beams=1, length_penalty=0.0)
SHOWN = 2  # translations that are logged after an epoch


class Translating(Writing):
    """Pairs and a translator: what the training loop works on, and what translates afterwards."""

    made_of = "pairs"
    model: Translator

    def __init__(self, recipe: TranslateRecipe, words: Vocabularies, model: Translator) -> None:
        super().__init__(recipe)
        self.words, self.model = words, model
        self.pairs: dict[str, tuple[Pair, ...]] = dict.fromkeys(PARTS, ())
        self._encoded: dict[str, list[tuple[NDArray[np.int32], NDArray[np.int32]]]] = {}
        self._loose: tuple[LoosePairs, LoosePairs] | None = None  # where words fall apart
        self._split_for = -1  # the epoch whose pieces the training pairs are in

    @property
    def files(self) -> tuple[str, ...]:  # type: ignore[override]
        """What it writes beside the weights: one vocabulary, or two."""
        joint = self.recipe.tokenizer.joint
        return ("tokenizer.json",) if joint else ("source.json", "target.json")

    @classmethod
    def from_recipe(
        cls, recipe: TranslateRecipe, progress: Progress | None = None
    ) -> "Translating":
        """Read the pairs, make the vocabularies and a fresh model."""
        splits = _loaded(recipe, progress)
        words = _vocabularies(recipe, splits.train)
        torch.manual_seed(recipe.seed)
        sizes = len(words.source), len(words.target)
        task = cls(recipe, words, build_translator(recipe.model, *sizes))
        for part in PARTS:
            task._take(part, getattr(splits, part))
        task.data_told = _told(recipe, splits)
        return task

    def _take(self, part: str, pairs: tuple[Pair, ...]) -> None:
        """Encode the pairs of a part."""
        self.pairs[part] = pairs
        self._encoded[part] = [
            (
                np.array(self.words.read(pair.source), np.int32),
                np.array(self.words.wrote(pair.target), np.int32),
            )
            for pair in pairs
        ]

    # -- what the training loop asks ---------------------------------------------------------------

    def batches(self, epoch: int) -> list[list[int]]:
        """The training batches: pairs of like lengths together, by their tokens."""
        self.force(epoch)
        self._fall_apart(epoch)
        return pair_batches(
            *self._lengths("train"),
            tokens=self.recipe.train.batch,
            seed=self.recipe.seed,
            epoch=epoch,
        )

    def _fall_apart(self, epoch: int) -> None:
        """Put the training pairs into the pieces of this epoch, where these are left to chance."""
        share, words = self.recipe.tokenizer.dropout, self.words
        if not share or self._split_for == epoch:
            return
        if self._loose is None:
            assert isinstance(words.source, BytePair)
            assert isinstance(words.target, BytePair)
            pairs, seed = self.pairs["train"], self.recipe.seed
            sources = [words.cased(pair.source) for pair in pairs]
            targets = [words.cased(pair.target) for pair in pairs]
            self._loose = (
                LoosePairs(words.source, sources, share, f"source {seed}"),
                LoosePairs(words.target, targets, share, f"target {seed}"),
            )
        read, wrote = (side.drawn(epoch) for side in self._loose)
        stop = np.int32(stop_of(words.source))
        self._encoded["train"] = [(np.append(s, stop), t) for s, t in zip(read, wrote, strict=True)]
        self._split_for = epoch

    def _lengths(self, part: str) -> tuple[list[int], list[int]]:
        some = self._encoded[part]
        return [len(source) for source, _ in some], [len(target) + 1 for _, target in some]

    def weight(self, batch: Sequence[int]) -> int:
        """Over how many tokens of the target the loss is a mean."""
        return sum(len(self._encoded["train"][k][1]) + 1 for k in batch)

    def describe(self, batch: Sequence[int]) -> str:
        """Say what a batch is."""
        source, target = (
            max(len(self._encoded["train"][k][side]) for k in batch) for side in (0, 1)
        )
        return f"a batch of {len(batch):,} pairs, the longest of {source:,} and {target:,} tokens"

    def collate(
        self, part: str, batch: Sequence[int], device: torch.device
    ) -> tuple[Sentences, Tensor, Tensor]:
        """Sources, targets behind their start token, and what follows each of these."""
        some = [self._encoded[part][k] for k in batch]
        ids, lengths = pad([source for source, _ in some])
        source = Sentences(ids.to(device), lengths.to(device))
        return source, *framed([t for _, t in some], stop_of(self.words.target), device)

    def measured_in(self, part: str) -> list[list[int]]:
        """The batches in which the loss on a part is measured."""
        tokens = self.recipe.train.batch
        return pair_batches(*self._lengths(part), tokens=tokens, seed=0, shuffle=False)

    def evaluate(self, crew: Crew) -> dict[str, float]:
        """The loss on the validation pairs; and BLEU, where it decides which epoch is best."""
        if not self.pairs["validation"]:
            return {}
        measured = self.loss_on("validation", crew)
        if self.recipe.train.metric == "bleu":
            found = self._translated("validation", crew, GREEDILY)
            scores = score(found, self._references("validation"), lowercase=self.words.lower)
            measured["validation_bleu"] = scores.bleu.score
        return measured

    def _translated(self, part: str, crew: Crew, how: SearchConfig) -> list[str]:
        """The best translation of every source of a part."""
        pairs = self.pairs[part]
        return self.shared_out(
            len(pairs), crew, lambda mine: self.best((pairs[k].source for k in mine), how)
        )

    def _references(self, part: str) -> list[str]:
        return [pair.target for pair in self.pairs[part]]

    def test(self, crew: Crew) -> dict[str, Any]:
        """Translate the test part, and score it."""
        if not self.pairs["test"]:
            return {}
        found = self._translated("test", crew, self.recipe.search)
        references, lower = self._references("test"), self.words.lower
        scores = score(found, references, lowercase=lower)
        measured = {
            **self.loss_on("test", crew),
            "test_bleu": scores.bleu.score,
            "test_chrf": scores.chrf.score,
            "test_pairs": len(found),
            **self._learned_of_the_test(),
            "signature": scores.bleu.signature,
            "chrf_signature": scores.chrf.signature,
        }
        with suppress(UserError):  # Moses does not know every language
            language = self.recipe.data.target
            tokenised = tokenised_bleu(found, references, language=language, lowercase=lower)
            measured["test_tokenised_bleu"] = tokenised.score
            measured["tokenised_signature"] = tokenised.signature
        return measured

    def _learned_of_the_test(self) -> dict[str, int]:
        """How many of the test pairs were trained on, if any: somebody else may have split them."""
        known = set(self.pairs["train"])
        learned = sum(pair in known for pair in self.pairs["test"])
        return {"test_pairs_learned": learned} if learned else {}

    def remark(self) -> dict[str, Any]:
        """How the first of the validation pairs are translated by now."""
        some = [pair.source for pair in self.pairs["validation"][:SHOWN]]
        found = zip(some, self.best(some, GREEDILY), strict=True)
        return {"sample": "\n".join(f"{source} → {text}" for source, text in found)} if some else {}

    # -- translating -------------------------------------------------------------------------------

    def translate(
        self,
        texts: Iterable[str],
        how: SearchConfig | None = None,
        sampling: Sampling | None = None,
        by: Search | None = None,
    ) -> Iterator[list[Written]]:
        """Translate texts as they come: of each the best translations, best first; or one drawn."""
        return translate(self.model, self.words, texts, how or self.recipe.search, sampling, by)

    def best(self, texts: Iterable[str], how: SearchConfig | None = None) -> Iterator[str]:
        """The best translation of each text."""
        return (found.text for found in self._best(texts, how))

    def written(self, text: str) -> Written:
        """The best translation of a text, with the tokens that it is made of."""
        return next(self._best([text]))

    def _best(self, texts: Iterable[str], how: SearchConfig | None = None) -> Iterator[Written]:
        by = partial(beam_search, self.model, best=1)
        nothing = Written("", (), -math.inf, -math.inf)  # of scores that are no numbers
        return (found[0] if found else nothing for found in self.translate(texts, how, by=by))

    def evaluate_on(self, data: str | None = None) -> dict[str, Any]:
        """Score the test part of a set, or all pairs of a file; None: the recipe's test part."""
        self._take("test", self.test_pairs(data))
        with suppress(UserError):  # they may be gone: then nobody can tell what was learned
            self.pairs["train"] = self.learned_from()
        return self.test(Crew(next(self.model.parameters()).device))

    def learned_from(self) -> tuple[Pair, ...]:
        """The training pairs, read again where they were, if they are there."""
        return self._as_they_were(_loaded(self.recipe, fetch=False)).train

    def _as_they_were(self, splits: PairSplits) -> PairSplits:
        """See that pairs which were read again are what the run was trained on."""
        if self.data_told.get("sha256") not in (None, _told(self.recipe, splits)["sha256"]):
            raise UserError(
                f"{self.recipe.data.set} is not what this run was trained on: what it held out "
                "cannot be told any more; --data measures on all of a file"
            )
        return splits

    def test_pairs(self, data: str | None = None) -> tuple[Pair, ...]:
        """What to test on: a set's test part, all pairs of a file, or what the recipe held out."""
        wanted = self.recipe.data
        if data is None and wanted.set == ELSEWHERE:
            raise UserError("a model that was imported has nothing to be tested on: --data FILE")
        if data is None or (data == wanted.set and data in pair_set_names()):
            pairs = self._as_they_were(_loaded(self.recipe)).test
        else:
            pairs = load_test(data, source=wanted.source, target=wanted.target)
        if not pairs:
            raise UserError(f"{data or wanted.set}: it has no pairs to test on")
        return pairs

    # -- the run folder ----------------------------------------------------------------------------

    def fingerprint(self) -> dict[str, Any]:
        """What two processes must agree about: the pairs, and how they became numbers."""
        digest = hashlib.sha256()
        for source, target in self._encoded["train"][:1000]:
            digest.update(source.tobytes() + target.tobytes())
        return {**self.data_told, "tokens": len(self.words.target), "ids": digest.hexdigest()[:16]}

    def twin(self, weights: dict[str, Tensor]) -> "Translating":
        """Another of this kind, on the same pairs, with a model of its own that has the weights."""
        sizes = len(self.words.source), len(self.words.target)
        model = build_translator(self.recipe.model, *sizes)
        model.load_state_dict(weights)
        other = Translating(self.recipe, self.words, model.eval())
        other.data_told, other.pairs, other._encoded = self.data_told, self.pairs, self._encoded
        return other

    def save(self, folder: Path) -> None:
        """Write what is needed beside the weights."""
        for name, tokenizer in zip(self.files, (self.words.source, self.words.target)):  # noqa: B905 - one, if joint
            tokenizer.save(folder / name)

    def agrees(self, folder: Path) -> bool:
        """Tell whether a run's vocabularies are these."""
        return _saved(folder, self.recipe) == self.words

    @classmethod
    def load(
        cls, folder: Path, recipe: TranslateRecipe, belongs: str | None = None
    ) -> "Translating":
        """Read a run's vocabularies and best weights, which may have to bear its mark."""
        words = _saved(folder, recipe)
        model = with_weights(
            lambda: build_translator(recipe.model, len(words.source), len(words.target)),
            folder / "model.safetensors",
            belongs,
        )
        return cls(recipe, words, model)


def _loaded(
    recipe: TranslateRecipe, progress: Progress | None = None, *, fetch: bool = True
) -> PairSplits:
    wanted = recipe.data
    return load_pairs(
        wanted.set,
        source=wanted.source,
        target=wanted.target,
        validation=wanted.validation,
        longest=wanted.longest,
        ratio=wanted.ratio,
        seed=recipe.seed,
        fetch=fetch,
        progress=progress,
    )


def _told(recipe: TranslateRecipe, splits: PairSplits) -> dict[str, Any]:
    """What is learned from: how much of it, what was left out, and a checksum of all."""
    digest = hashlib.sha256()
    for part in PARTS:
        for pair in getattr(splits, part):
            digest.update(json.dumps([part, pair.source, pair.target]).encode())
    data, counts = recipe.data, {part: len(getattr(splits, part)) for part in PARTS}
    return {
        "set": data.set,
        "source": data.source,
        "target": data.target,
        **counts,
        "cleaned": splits.cleaned.told(),
        "sha256": digest.hexdigest(),
    }


def _vocabularies(recipe: TranslateRecipe, pairs: Sequence[Pair]) -> Vocabularies:
    wanted = recipe.tokenizer
    sides = ([p.source for p in pairs], [p.target for p in pairs])
    lower = _is_lower(recipe)
    if lower:
        sides = ([text.lower() for text in sides[0]], [text.lower() for text in sides[1]])

    def learned(texts: list[str]) -> Any:
        return train_tokenizer(wanted.kind, texts, wanted.size, wanted.min_count, stop=True)

    if wanted.joint:
        both = learned([*sides[0], *sides[1]])
        return Vocabularies(both, both, lower)
    return Vocabularies(learned(sides[0]), learned(sides[1]), lower)


def _saved(folder: Path, recipe: TranslateRecipe) -> Vocabularies:
    lower = _is_lower(recipe)
    if recipe.tokenizer.joint:
        both = load_tokenizer(folder / "tokenizer.json")
        return Vocabularies(both, both, lower)
    source, target = (load_tokenizer(folder / f"{side}.json") for side in ("source", "target"))
    return Vocabularies(source, target, lower)


def _is_lower(recipe: TranslateRecipe) -> bool:
    """Whether capitals are lost: a vocabulary of words has none."""
    return recipe.tokenizer.lower or recipe.tokenizer.kind == "words"
