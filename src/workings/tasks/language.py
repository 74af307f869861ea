"""Language modelling: from a text and a recipe to a model that goes on with a prompt."""

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from workings.crew import Crew
from workings.data.download import Progress
from workings.data.texts import pieces
from workings.data.token_file import Ids, mapped, text_checksum
from workings.data.tokenizer import UNKNOWN, Tokenizer
from workings.data.tokenizers import load_tokenizer, train_tokenizer
from workings.decode.sample import GREEDY, Sampling
from workings.errors import UserError
from workings.models.language import LanguageModel, Memories, build_language_model
from workings.recipes import LanguageRecipe
from workings.tasks.completion import Generator, Told, stream
from workings.tasks.memory import memory_told
from workings.tasks.task import Losses, Task
from workings.tasks.weights import with_weights

AT_ONCE = 64  # windows in a batch of measuring, if their scores are not too many
MOST_SCORES = 2**26  # 256 MiB
NOTHING: Ids = np.zeros(0, np.uint16)


class Modelling(Task):
    """A text and a model of it: what the training loop works on, and what completes afterwards."""

    files = ("tokenizer.json",)
    metric = "validation_loss"
    higher_is_better = False
    unit = made_of = "tokens"
    model: LanguageModel

    def __init__(self, recipe: LanguageRecipe, tokenizer: Tokenizer, model: LanguageModel) -> None:
        self.recipe, self.tokenizer, self.model = recipe, tokenizer, model
        self.data_told: dict[str, Any] = {}
        self._train = self._held_out = NOTHING
        self._student = 0.0  # share of the inputs that are the model's own
        self._memories: Memories | None = None  # where each stream of a carried training is

    @classmethod
    def from_recipe(cls, recipe: LanguageRecipe, progress: Progress | None = None) -> "Modelling":
        """Read the text, make the tokenizer and a fresh model."""
        del progress  # a text is there already, and read in no time
        wanted, name = recipe.tokenizer, recipe.data.set
        checksum, characters = text_checksum(pieces(name))
        if characters < 2:
            told = "it is empty" if not characters else "a single character"
            raise UserError(f"{name}: {told}: there is nothing to predict")
        learned_from = _between(pieces(name), 0, learned_length(recipe, characters))
        tokenizer = train_tokenizer(wanted.kind, learned_from, wanted.size, wanted.min_count)
        torch.manual_seed(recipe.seed)
        task = cls(recipe, tokenizer, build_language_model(recipe.model, len(tokenizer)))
        task._train, task._held_out = task._parts(checksum, characters)
        counts = {"train": len(task._train), "validation": len(task._held_out)}
        task.data_told = {"set": name, "characters": characters, **counts, "sha256": checksum}
        return task

    def _parts(self, checksum: str, characters: int) -> tuple[Ids, Ids]:
        """The recipe's text as ids: what is learned from, and what is held out.

        They are cut where the vocabulary's part ends, and encoded apart.
        """
        name, cut = self.recipe.data.set, learned_length(self.recipe, characters)
        learned, held_out = (
            mapped(_between(pieces(name), a, b), self.tokenizer, f"{checksum} {a} {b}")
            for a, b in ((0, cut), (cut, characters))
        )
        if min(len(learned), len(held_out)) < 2:
            count = len(learned) + len(held_out)
            raise UserError(f"{name}: {count:,} tokens: too few to learn from and to hold out")
        return learned, held_out

    # -- what the training loop asks ---------------------------------------------------------------

    def batches(self, epoch: int) -> list[list[int]]:
        """Windows by where they begin: drawn at random, or, carried, in the text's order."""
        data, size, forcing = self.recipe.data, self.recipe.train.batch, self.recipe.forcing
        self._student = forcing.student * min(max(epoch - forcing.from_epoch, 0) / forcing.over, 1)
        if data.carry:
            return self._streams(epoch, size)
        draw = np.random.default_rng([self.recipe.seed, epoch])
        latest = len(self._train) - 1 - self._window
        return draw.integers(0, latest, size=(data.steps, size), endpoint=True).tolist()  # type: ignore[no-any-return]

    def _streams(self, epoch: int, size: int) -> list[list[int]]:
        """Cut the text into as many streams as a batch has rows, and follow them side by side."""
        length, steps = self._stream_length, self.recipe.data.steps
        if length < self._window:
            raise UserError(
                f"{self.recipe.data.set}: {len(self._train):,} tokens are too few for {size} "
                f"streams of windows of {self._window}: a smaller train.batch or data.window"
            )
        places = [(epoch * steps + k) % (length // self._window) for k in range(steps)]
        return [[row * length + place * self._window for row in range(size)] for place in places]

    @property
    def _stream_length(self) -> int:
        return (len(self._train) - 1) // self.recipe.train.batch

    @property
    def _window(self) -> int:
        return min(self.recipe.data.window, len(self._train) - 1)

    def weight(self, batch: Sequence[int]) -> int:
        """Over how many tokens the loss is a mean."""
        return len(batch) * self._window

    def describe(self, batch: Sequence[int]) -> str:
        """Say what a batch is."""
        return f"a batch of {len(batch):,} windows of {self._window:,} tokens"

    def loss(self, batch: Sequence[int], device: torch.device) -> Losses:
        """The mean cross-entropy of the next token."""
        inputs, targets = _windows(self._train, batch, self._window, device)
        if self._student:
            scores = self._student_forced(inputs)
        elif self.recipe.data.carry:
            scores = self._carried_on(batch, inputs)
        else:
            scores, _ = self.model(inputs)
        smoothing = self.recipe.train.smoothing
        return Losses(
            F.cross_entropy(scores.flatten(0, 1), targets.flatten(), label_smoothing=smoothing)
        )

    def _carried_on(self, batch: Sequence[int], inputs: Tensor) -> Tensor:
        """Go on with the state that each stream ended with; where it begins anew, so does that."""
        if batch[0] % self._stream_length == 0:
            self._memories = None
        scores: Tensor
        scores, ended = self.model(inputs, self._memories)
        self._memories = ended.detach()
        return scores

    def _student_forced(self, inputs: Tensor) -> Tensor:
        """Feed the model its own predictions, at the share that the schedule has come to."""
        scores: list[Tensor] = []
        state, token = None, inputs[:, 0]
        for t in range(inputs.shape[1]):
            if t:
                own = torch.multinomial(torch.softmax(scores[-1].detach(), -1), 1).squeeze(1)
                student = torch.rand(len(inputs), device=inputs.device) < self._student
                token = torch.where(student, own, inputs[:, t])
            found, state = self.model(token.unsqueeze(1), state)
            scores.append(found[:, 0])
        return torch.stack(scores, 1)

    def evaluate(self, crew: Crew) -> dict[str, float]:
        """Nats, bits a character and perplexity of the held-out text, window after window."""
        window = self.recipe.data.window
        return _named("validation", self._measured(self._held_out, crew, window))

    def test(self, crew: Crew) -> dict[str, float]:
        """The same with windows that overlap by half, so that every token has a past to see."""
        stride = max(self.recipe.data.window // 2, 1)
        return _named("sliding", self._measured(self._held_out, crew, stride))

    def evaluate_on(self, data: str | None = None) -> dict[str, float]:
        """Measure on a text, all of it; without one, on the text that the recipe holds out."""
        checksum, characters = text_checksum(pieces(data or self.recipe.data.set))
        if data is None and self.data_told.get("sha256", checksum) != checksum:
            raise UserError(
                f"{self.recipe.data.set} is not the text that this run began with: what it held "
                "out cannot be told any more; --data measures on all of a text"
            )
        if data is None:  # by which the weights were chosen
            part, (_, ids) = "validation", self._parts(checksum, characters)
        else:
            part, ids = "test", mapped(pieces(data), self.tokenizer, checksum)
        if len(ids) < 2:
            raise UserError(f"{data}: a single token: there is nothing to predict")
        crew, window = Crew(self._device), self.recipe.data.window
        return _named(part, self._measured(ids, crew, window)) | _named(
            "sliding", self._measured(ids, crew, max(window // 2, 1))
        )

    @torch.no_grad()
    def _measured(self, ids: Ids, crew: Crew, stride: int) -> dict[str, float]:
        """Mean nats over every token but the first, and what they mean for characters."""
        window, last = self.recipe.data.window, len(ids) - 1
        places = [
            (max(0, begin + stride - window), min(begin + stride, last), begin)
            for begin in range(0, last, stride)
        ]
        nats = 0.0
        for (length, counted), some in groupby(places, lambda p: (p[1] - p[0], p[1] - p[2])):
            begins = [begin for begin, _, _ in some]
            at_once = max(1, min(AT_ONCE, MOST_SCORES // (length * len(self.tokenizer))))
            for k in range(0, len(begins), at_once):
                share = crew.share(begins[k : k + at_once])
                # A model that is spread over the crew needs everybody for every batch.
                inputs, targets = _windows(ids, share or begins[:1], length, crew.device)
                told = f"in measuring on {len(inputs):,} windows of {length:,} tokens"
                with memory_told(told, "a smaller data.window or model needs less"):
                    scores, _ = self.model(inputs)
                    late = scores[:, -counted:].flatten(0, 1).float()
                    loss = F.cross_entropy(late, targets[:, -counted:].flatten(), reduction="sum")
                nats += float(loss) if share else 0.0
        mean = crew.total({"nats": nats})["nats"] / last
        characters = _characters(ids[1:], self.tokenizer) / last
        return {
            "loss": mean,
            "bits_per_character": mean / math.log(2) / max(characters, 1e-9),
            "perplexity": math.exp(min(mean, 700.0)),
        }

    def remark(self) -> dict[str, Any]:
        """A few words of the model's own."""
        if not self.recipe.data.sample:
            return {}
        begin = self.tokenizer.decode(self._held_out[:20].tolist())
        how = Sampling(temperature=0.8, seed=self.recipe.seed)
        return {"sample": self.complete(begin, self.recipe.data.sample, how)}

    def carried(self) -> dict[str, Tensor]:
        """The state that each stream has come to, layer by layer."""
        layers = [] if self._memories is None else self._memories.layers
        return {f"{k}.{i}": t.cpu() for k, (way,) in enumerate(layers) for i, t in enumerate(way)}

    @torch.no_grad()
    def take_up(self, carried: Mapping[str, Tensor]) -> None:
        """Go on with the streams' states."""
        self._memories = None
        if not carried:
            return
        _, like = self.model(torch.zeros(1, 1, dtype=torch.long, device=self._device))
        layers = [
            [tuple(carried[f"{k}.{i}"].to(t) for i, t in enumerate(way))]
            for k, (way,) in enumerate(like.layers)
        ]
        found = {t.shape[1:] for ((*way,),) in layers for t in way}
        if found != {t.shape[1:] for ((*way,),) in like.layers for t in way}:
            raise ValueError("the states of the streams are another model's")
        self._memories = Memories(layers)

    # -- completing --------------------------------------------------------------------------------

    def complete(
        self, prompt: str, tokens: int = 200, how: Sampling = GREEDY, stops: Sequence[str] = ()
    ) -> str:
        """Go on with a prompt; return both."""
        return prompt + "".join(told.text for told in self.stream(prompt, tokens, how, stops))

    def stream(
        self,
        prompt: str,
        tokens: int = 200,
        how: Sampling = GREEDY,
        stops: Sequence[str] = (),
        top: int = 0,
        by: Generator | None = None,
    ) -> Iterator[Told]:
        """Go on with a prompt, a token at a time, up to a stop string (which is left out)."""
        return stream(self.model, self.tokenizer, prompt, tokens, how, stops, top, by)

    def notes(self, prompt: str, tokens: int) -> list[str]:
        """What the user should know of a prompt before it is completed."""
        notes = []
        known, window = self.tokenizer, self.recipe.data.window
        if not known.encode(prompt) and known.start != known.stop:  # which parts texts
            notes.append("nothing to go on from: it reads a token that training never had, first")
        strange = sorted({t for t in known.tokens(prompt) if known.encode(t) == [known.unknown]})
        if strange:
            notes.append(f"never seen in training, read as unknown: {' '.join(strange)}")
        total, longest = len(known.encode(prompt)) + tokens, self.model.longest
        if longest is not None and total > longest:
            notes.append(
                f"{total:,} tokens, of which the model sees {longest:,}: whenever its window is "
                "full, it reads the later half of it again and goes on from there"
            )
        elif not self.model.remembers and total > window:
            notes.append(
                f"{total:,} tokens; it was trained on windows of {window:,}, and goes on beyond"
            )
        return notes

    # -- the run folder --------------------------------------------------------------------------

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device

    def fingerprint(self) -> dict[str, Any]:
        """What two processes must agree about: the text, and how it became numbers."""
        digest = hashlib.sha256(self._train[:10_000].tobytes())
        return {**self.data_told, "tokens": len(self.tokenizer), "ids": digest.hexdigest()[:16]}

    def twin(self, weights: dict[str, Tensor]) -> "Modelling":
        """Another of this kind, on the same text, with a model of its own that has the weights."""
        model = build_language_model(self.recipe.model, len(self.tokenizer))
        model.load_state_dict(weights)
        other = Modelling(self.recipe, self.tokenizer, model.eval())
        other.data_told = self.data_told
        other._train, other._held_out = self._train, self._held_out
        return other

    def save(self, folder: Path) -> None:
        """Write what is needed beside the weights."""
        self.tokenizer.save(folder / "tokenizer.json")

    def agrees(self, folder: Path) -> bool:
        """Tell whether a run's tokenizer is this one."""
        return load_tokenizer(folder / "tokenizer.json") == self.tokenizer

    @classmethod
    def load(cls, folder: Path, recipe: LanguageRecipe, belongs: str | None = None) -> "Modelling":
        """Read a run's tokenizer and best weights, which may have to bear its mark."""
        tokenizer = load_tokenizer(folder / "tokenizer.json")
        model = with_weights(
            lambda: build_language_model(recipe.model, len(tokenizer)),
            folder / "model.safetensors",
            belongs,
        )
        return cls(recipe, tokenizer, model)


def learned_length(recipe: LanguageRecipe, characters: int) -> int:
    """How many characters of a text are learned from; the rest is held out."""
    return int(characters * (1 - recipe.data.held_out))


def _between(texts: Iterable[str], begin: int, end: int) -> Iterator[str]:
    """The characters from one place to another of a text that comes in pieces."""
    place = 0
    for text in texts:
        if some := text[max(begin - place, 0) : end - place]:
            yield some
        place += len(text)
        if place >= end:
            return


def _windows(
    ids: Ids, begins: Sequence[int], length: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Windows of a text, and the same a token later: `[windows, length]` each."""
    places = np.asarray(begins)[:, None] + np.arange(length + 1)
    rows = torch.from_numpy(ids[places].astype(np.int64)).to(device)
    return rows[:, :-1], rows[:, 1:]


def _characters(ids: Ids, tokenizer: Tokenizer, at_once: int = 2**20) -> int:
    """How many characters tokens stand for; what is unknown is one, however it is spelt."""
    some = (ids[k : k + at_once].tolist() for k in range(0, len(ids), at_once))
    spelt = sum(len(tokenizer.decode(part)) for part in some)
    return spelt - (len(UNKNOWN) - 1) * int(np.count_nonzero(ids == tokenizer.unknown))


def _named(part: str, measured: dict[str, float]) -> dict[str, float]:
    return {f"{part}_{name}": value for name, value in measured.items()}
