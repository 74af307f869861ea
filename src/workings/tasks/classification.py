"""Text classification: from a recipe to a trained model, and from a run to predictions."""

import hashlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from workings.data import (
    Example,
    Splits,
    Tokenizer,
    find_text_overlap,
    list_datasets,
    load_dataset,
    load_tokenizer,
    make_batches,
    pad,
    read_examples,
    train_tokenizer,
)
from workings.data.batching import IdSequence
from workings.data.download import ProgressCallback
from workings.data.tokenizers.base import Span
from workings.distributed import ProcessGroup
from workings.errors import UserError
from workings.io import existing_path
from workings.models.classifiers import TextClassifier, build_classifier
from workings.recipes import ClassificationRecipe
from workings.storage import CorruptFileError, read_json, write_json
from workings.tasks.base import BatchLoss, Task, build_from_file, oom_hint

SPLIT_NAMES = ("train", "validation", "test")
PREDICTION_BATCH_SIZE = 64  # texts in a batch of predictions
FILE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".txt", ".gz")  # what is called so is meant as a file


class Classification(Task):
    """Texts, labels and a model: what the training loop works on, and what predicts afterwards."""

    files = ("tokenizer.json", "labels.json")  # which it writes beside the weights
    metric = "validation_accuracy"
    higher_is_better = True
    batch_unit = "examples"
    data_unit = "texts"

    model: TextClassifier

    def __init__(
        self,
        recipe: ClassificationRecipe,
        tokenizer: Tokenizer,
        labels: Sequence[str],
        model: TextClassifier,
    ) -> None:
        self.recipe, self.tokenizer, self.model = recipe, tokenizer, model
        self.labels = tuple(labels)
        self._sequences: dict[str, list[NDArray[np.int32]]] = {}
        self._targets: dict[str, list[int]] = {}
        self.examples: dict[str, list[Example]] = {}
        self.data_info: dict[str, Any] = {}  # what it learns from: how much, and its checksum
        self._unseen_label_counts: dict[
            str, int
        ] = {}  # examples left out: training had no such label
        self._overlap: list[int] = []  # test examples whose text stands among the others, too

    @classmethod
    def from_recipe(
        cls,
        recipe: ClassificationRecipe,
        progress: ProgressCallback | None = None,
        *,
        splits: Splits | None = None,
    ) -> "Classification":
        """Read the data, unless they are given; make the tokenizer and a fresh model."""
        data = recipe.data
        splits = splits or load_dataset(
            data.set,
            validation=data.validation,
            seed=recipe.seed,
            text=data.text,
            label=data.label,
            progress=progress,
        )
        _check_learnable(splits, data.set)
        wanted = recipe.tokenizer
        tokenizer = train_tokenizer(
            wanted.kind, (e.text for e in splits.train), wanted.vocab_size, wanted.min_count
        )
        torch.manual_seed(recipe.seed)
        model = build_classifier(recipe.model, len(tokenizer), len(splits.labels))
        task = cls(recipe, tokenizer, splits.labels, model)
        task.encode_splits(splits)
        counts = {part: len(getattr(splits, part)) for part in SPLIT_NAMES}
        task.data_info = {"set": data.set, **counts, "sha256": splits.checksum}
        return task

    def encode_splits(self, splits: Splits, names: Sequence[str] = SPLIT_NAMES) -> None:
        """Encode the examples of the parts."""
        numbers = {label: k for k, label in enumerate(self.labels)}
        encoded: dict[str, list[list[int]]] = {}
        for part in names:
            examples = [e for e in getattr(splits, part) if e.label in numbers]
            self._unseen_label_counts[part] = len(getattr(splits, part)) - len(examples)
            if self._unseen_label_counts[part] and not examples:
                raise UserError(f"{splits.name}: no {part} example has a label seen in training")
            encoded[part] = [self.encode(e.text) for e in examples]
            self._targets[part] = [numbers[e.label] for e in examples if e.label is not None]
            self.examples[part] = examples
        seen = find_text_overlap((*splits.train, *splits.validation), self.examples["test"])
        self._overlap = list(seen.second_indices)
        if "train" in encoded:
            self.model.prepare(encoded["train"], self._targets["train"])
        # As arrays, which take half the room of a list and a fifth of its time to be padded.
        self._sequences = {
            part: [np.asarray(self.model.featurize(ids), dtype=np.int32) for ids in texts]
            for part, texts in encoded.items()
        }

    def encode(self, text: str) -> list[int]:
        """Turn a text into ids, cut off where the recipe says."""
        # A token is at least one character, so that a book need not be read to its end.
        longest = self.recipe.data.max_length
        return self.tokenizer.encode(text[: 40 * longest])[:longest]

    def encode_with_spans(self, text: str) -> tuple[list[int], list[Span], int]:
        """Turn a text into the ids that the model reads, and tell where in it each one stands.

        The last number counts the characters at the end that are not read.
        """
        head = text[: 40 * self.recipe.data.max_length]
        spans = self.tokenizer.find_spans(head)
        ids = self.encode(text)[: self._fixed_length()]
        end = spans[len(ids) - 1][1] if 0 < len(ids) < len(spans) else len(head)
        rest = text[end:]
        return ids, spans[: len(ids)], len(rest) if rest.strip() else 0

    # -- what the training loop asks ---------------------------------------------------------------

    def batches(self, epoch: int) -> list[list[int]]:
        """The training batches: examples of like length together."""
        lengths = [len(s) for s in self._sequences["train"]]
        size = self.recipe.train.batch_size
        pool = 1 if self._fixed_length() else 50
        return make_batches(lengths, size, seed=self.recipe.seed, epoch=epoch, pool=pool)

    def weight(self, batch: Sequence[int]) -> int:
        """Over how many examples the loss is a mean."""
        return len(batch)

    def describe(self, batch: Sequence[int], split: str = "train") -> str:
        """Say what a batch is."""
        longest = max(len(self._sequences[split][i]) for i in batch)
        return f"a batch of {len(batch):,} texts, the longest of {longest:,} tokens"

    def loss(self, batch: Sequence[int], device: torch.device) -> BatchLoss:
        """The mean cross-entropy of a batch, and how many of it were right."""
        ids, lengths, targets = self._collate("train", batch, device)
        scores = self.model(ids, lengths)
        hits = float((scores.argmax(-1) == targets).sum())
        smoothing = self.recipe.train.label_smoothing
        loss = F.cross_entropy(scores, targets, label_smoothing=smoothing)
        return BatchLoss(loss, {"accuracy": hits})

    def evaluate(self, process_group: ProcessGroup) -> dict[str, float]:
        """Loss and accuracy on the held-out examples."""
        measured: dict[str, float] = {}
        for part in ("validation", "test") if self.recipe.data.watch_test else ("validation",):
            if self._sequences[part]:
                scores, targets = self.compute_split_logits(part, process_group)
                measured[f"{part}_loss"] = float(F.cross_entropy(scores, targets))
                measured[f"{part}_accuracy"] = float((scores.argmax(-1) == targets).float().mean())
        return measured

    def with_weights(self, weights: dict[str, Tensor]) -> "Classification":
        """Another of this kind, on the same examples, with a model of its own that has the weights.

        This one's may be compiled, or spread over several processes.
        """
        model = build_classifier(self.recipe.model, len(self.tokenizer), len(self.labels))
        model.load_state_dict(weights)
        other = Classification(self.recipe, self.tokenizer, self.labels, model.eval())
        other._sequences, other._targets = self._sequences, self._targets
        other.examples, other._overlap = self.examples, self._overlap
        other._unseen_label_counts, other.data_info = self._unseen_label_counts, self.data_info
        return other

    def fingerprint(self) -> dict[str, Any]:
        """What two processes must agree about: the data, and how it became numbers."""
        digest = hashlib.sha256(repr(self.labels).encode())
        for sequence in self._sequences["train"][:1000]:
            digest.update(np.asarray(sequence, dtype=np.int64).tobytes())
        return {**self.data_info, "tokens": len(self.tokenizer), "ids": digest.hexdigest()[:16]}

    def test(self, process_group: ProcessGroup) -> dict[str, float]:
        """Measure once on the test part."""
        if not self._sequences.get("test"):
            return {}
        scores, targets = self.compute_split_logits("test", process_group)
        hits = (scores.argmax(-1) == targets).float()
        measured = {
            "test_accuracy": float(hits.mean()),
            "test_loss": float(F.cross_entropy(scores, targets)),
            "test_examples": len(targets),
        }
        if 0 < len(self._overlap) < len(targets):  # texts that training or choosing has seen
            unseen = torch.ones(len(targets), dtype=torch.bool)
            unseen[self._overlap] = False
            measured["test_overlap"] = len(self._overlap)
            measured["test_accuracy_without_overlap"] = float(hits[unseen].mean())
        if self._unseen_label_counts["test"]:
            measured["test_unseen_labels"] = self._unseen_label_counts["test"]
        return measured

    # -- scoring --------------------------------------------------------------------------------

    @torch.no_grad()
    def compute_split_logits(
        self, split: str, process_group: ProcessGroup
    ) -> tuple[Tensor, Tensor]:
        """The scores of every example of a part, in order, and the right answers.

        Each process of a crew scores its share of every batch; all of them get all scores.
        """
        sequences = self._sequences[split]
        result = torch.zeros(len(sequences), len(self.labels))
        for batch in make_batches([len(s) for s in sequences], 128, seed=0, shuffle=False):
            share = list(process_group.shard_batch(batch))
            # A model that is spread over the crew needs everybody for every batch.
            with oom_hint(f"in measuring on {self.describe(batch, split)}"):
                ids, lengths, _ = self._collate(split, share or batch[:1], process_group.device)
                scores = self.model(ids, lengths).float().cpu()
            if share:
                result[share] = scores
        return process_group.all_reduce_rows(result), torch.tensor(self._targets[split])

    @torch.no_grad()
    def predict(self, texts: Sequence[str]) -> Tensor:
        """The probabilities of the classes for each text: `[texts, classes]`."""
        self.model.eval()
        return torch.softmax(self.compute_logits([self.encode(text) for text in texts]), -1).cpu()

    def compute_logits(self, encoded: Sequence[Sequence[int]]) -> Tensor:
        """The scores of the classes for texts given as ids: `[texts, classes]`."""
        sequences = [self.model.featurize(ids) for ids in encoded]
        ids, lengths = self._pad(sequences)
        device = next(self.model.parameters()).device
        scores: Tensor = self.model(ids.to(device), lengths.to(device))
        return scores.float()

    def predict_sources(self, sources: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Predict texts as they come: each source is a text, a file, or `-` for standard input."""
        return self.predict_iter(read_texts(sources, self.recipe.data.text))

    def predict_iter(self, texts: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Predict texts as they come, a batch at a time."""
        waiting = iter(texts)
        while some := list(islice(waiting, PREDICTION_BATCH_SIZE)):
            for text, told in zip(
                some, format_predictions(self.predict(some), self.labels), strict=True
            ):
                yield {"text": text, **told}

    def evaluate_on(self, data: str | None = None) -> dict[str, float]:
        """Measure on a set's test part, on a file, or (None) on the recipe's own test part."""
        wanted = self.recipe.data
        name = data or wanted.set
        if data is None or data in list_datasets():
            columns = {"text": wanted.text, "label": wanted.label}
            seed = self.recipe.seed
            splits = load_dataset(name, validation=wanted.validation, seed=seed, **columns)  # type: ignore[arg-type]
            if data is None and self.data_info.get("sha256", splits.checksum) != splits.checksum:
                raise UserError(
                    f"{name} is not what this run was trained on: what it held out cannot be told "
                    "any more; --data measures on all of a file"
                )
            if name != wanted.set:  # its training part was not what this model saw
                splits = Splits(name, (), (), splits.test)
        else:
            splits = Splits(
                name, (), (), tuple(read_examples(data, text=wanted.text, label=wanted.label))
            )
        self.encode_splits(splits, ("test",))
        return self.test(self.local_group)

    @property
    def local_group(self) -> ProcessGroup:
        """A crew of this process, where the model is."""
        return ProcessGroup(next(self.model.parameters()).device)

    def _collate(
        self, split: str, batch: Sequence[int], device: torch.device
    ) -> tuple[Tensor, Tensor, Tensor]:
        ids, lengths = self._pad([self._sequences[split][i] for i in batch])
        targets = torch.tensor([self._targets[split][i] for i in batch])
        return ids.to(device), lengths.to(device), targets.to(device)

    def _pad(self, sequences: Sequence[IdSequence]) -> tuple[Tensor, Tensor]:
        front = self.recipe.model.get("padding") == "left"
        return pad(sequences, length=self._fixed_length(), pad_left=front)

    def token_slice(self, num_tokens: int, width: int) -> slice:
        """Where so many tokens of a text are among all places of a row, padding among them."""
        front = self.recipe.model.get("padding") == "left"
        return slice(width - num_tokens, width) if front else slice(num_tokens)

    def _fixed_length(self) -> int | None:
        counts = self.recipe.model.get("padding", "masked") != "masked"
        return self.model.fixed_length or (self.recipe.data.max_length if counts else None)

    # -- the run folder --------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Write what is needed beside the weights."""
        self.tokenizer.save(folder / "tokenizer.json")
        write_json(folder / "labels.json", {"labels": list(self.labels)})

    def matches_folder(self, folder: Path) -> bool:
        """Tell whether a run's tokenizer and labels are these."""
        same = load_tokenizer(folder / "tokenizer.json") == self.tokenizer
        return same and _read_labels(folder / "labels.json") == list(self.labels)

    @classmethod
    def load(
        cls, folder: Path, recipe: ClassificationRecipe, run_id: str | None = None
    ) -> "Classification":
        """Read a run's tokenizer, labels and best weights, which may have to bear its mark."""
        tokenizer = load_tokenizer(folder / "tokenizer.json")
        labels = _read_labels(folder / "labels.json")
        model = build_from_file(
            lambda: build_classifier(recipe.model, len(tokenizer), len(labels)),
            folder / "model.safetensors",
            run_id,
        )
        return cls(recipe, tokenizer, labels, model)


def _check_learnable(splits: Splits, name: str) -> None:
    """Refuse examples that nothing can be learned from."""
    texts = [e.text for part in SPLIT_NAMES for e in getattr(splits, part)]
    if not any(map(str.strip, texts)):  # all alike: held out together, and none is left
        raise UserError(
            f"{name}: all {len(texts):,} texts are empty: "
            "there is nothing to learn from (data.text names their column)"
        )
    if len(splits.labels) < 2:
        found = "only one label" if splits.labels else "no label"
        raise UserError(
            f"{name}: {found} in the training examples: at least two are needed to tell apart"
        )


def _read_labels(path: Path) -> list[str]:
    labels = read_json(path).get("labels")
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise CorruptFileError(f"{path}: it names no labels")
    return labels


def read_texts(sources: Iterable[str], column: str) -> Iterator[str]:
    """Read each source: `-` is standard input, a file is read, anything else is a text itself."""
    for source in sources:
        if source == "-":
            yield from (e.text for e in read_examples(sys.stdin.buffer, format="text", label=None))
        elif path := existing_path(source):
            if path.is_dir():
                raise UserError(f"{source}: a folder: give a text, a file, or - (a text a line)")
            yield from (e.text for e in read_examples(source, text=column, label=None))
        elif source.endswith(FILE_SUFFIXES) and " " not in source:
            raise UserError(f"{source}: no such file (a text that is called so: through -)")
        else:
            yield source


def format_predictions(probabilities: Tensor, labels: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Name the likeliest class of each text, with the probabilities of all."""
    for row in probabilities.tolist():
        best = max(range(len(row)), key=row.__getitem__)
        yield {
            "label": labels[best],
            "probability": round(row[best], 6),
            "probabilities": {label: round(p, 6) for label, p in zip(labels, row, strict=True)},
        }
