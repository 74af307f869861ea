"""Text classification: training on labeled texts, and predicting labels."""

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from workings.config import to_table
from workings.data.batching import IdSequence, make_batches, pad
from workings.data.cache import (
    MIN_CACHED_CHARACTERS,
    encode_short_texts,
    train_cached_tokenizer,
)
from workings.data.datasets import list_datasets, load_dataset
from workings.data.download import ProgressCallback
from workings.data.progress import report_items, split_progress
from workings.data.readers import Example, ItemsUntilError, read_examples
from workings.data.splits import Splits, find_text_overlap
from workings.data.tokenizers.base import (
    PAD_TOKEN,
    Span,
    Tokenizer,
    load_tokenizer,
    train_tokenizer,
)
from workings.distributed import ProcessGroup
from workings.errors import UserError
from workings.io import existing_path
from workings.metrics.classification import MULTI_LABEL_METRICS, SINGLE_LABEL_METRICS
from workings.models.classifier_base import TextClassifier
from workings.models.classifiers import build_classifier
from workings.models.summary import ModelSummary, summarize
from workings.plain_text import show_whitespace
from workings.ragged import RaggedArray, Row
from workings.recipes import (
    ClassificationDataConfig,
    ClassificationRecipe,
    ClassifierConfig,
    Padding,
)
from workings.storage import CorruptFileError, read_json, write_json
from workings.tasks.attention import (
    AttentionPass,
    PassOptions,
    StackSpec,
    check_count,
    check_no_target,
    require_layers,
)
from workings.tasks.base import (
    SPLIT_NAMES,
    BatchLoss,
    Generation,
    ModelExporter,
    ModelInput,
    Response,
    RowFormat,
    SplitPredictions,
    Task,
    check_test_data,
    check_text,
    oom_hint,
    unknown_rate,
)
from workings.tasks.baselines import score_majority, score_naive_bayes
from workings.tasks.labels import LabelScheme, MultiLabel, SingleLabel, Target

EVAL_BATCH_SIZE = 128
PREDICTION_BATCH_SIZE = 64
MAX_TOKEN_CHARACTERS = 40  # texts longer than this many times max_length are cut before encoding
# A source that ends like this is a file, not a text.
FILE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet", ".arrow", ".txt", ".gz")
MULTI_LABEL_EXPORT_REFUSAL = (
    "a classifier with several labels per text can be exported to onnx only: other programs "
    "would read its logits as those of one label"
)


class Classification(Task):
    """Labeled texts and a classifier."""

    files = ("tokenizer.json", "labels.json")
    baseline_metric = "test_accuracy"
    batch_unit = "examples"
    data_unit = "texts"
    selectable_metrics: Mapping[str, bool] = MappingProxyType(
        {"loss": False, **dict.fromkeys((*SINGLE_LABEL_METRICS, *MULTI_LABEL_METRICS), True)}
    )
    noun = "classifier"
    verb = "predict"
    recipe: ClassificationRecipe
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
        self.scheme = make_scheme(recipe, labels)
        self.selectable_metrics = {"loss": False, **dict.fromkeys(self.scheme.metrics, True)}
        self.class_weights: Tensor | None = None
        self.data_info: dict[str, Any] = {}
        self.examples: dict[str, list[Example]] = {}  # of the validation and the test
        self._sequences: dict[str, RaggedArray] = {}
        self._targets: dict[str, list[Target]] = {}
        self._unseen_label_counts: dict[str, int] = {}  # examples left out for their label
        self._overlap: list[int] = []  # test examples whose text is in another split, too

    @classmethod
    def from_recipe(
        cls,
        recipe: ClassificationRecipe,
        progress: ProgressCallback | None = None,
        *,
        splits: Splits | None = None,
        tokenizer: Tokenizer | None = None,
    ) -> Self:
        """Read the data, unless `splits` has them; train the tokenizer and build a new model."""
        stages = split_progress(progress, 3)  # reading, the vocabulary, encoding
        splits = splits or load_splits(recipe, progress=stages[0])
        labels, checksum = _list_labels(recipe, splits), splits.checksum
        tokenizer = tokenizer or _train_tokenizer(recipe, splits, checksum, stages[1])
        torch.manual_seed(recipe.seed)
        model = cls.build_model(recipe, tokenizer, labels)
        task = cls(recipe, tokenizer, labels, model)
        task.encode_splits(splits, checksum=checksum, progress=stages[2])
        task.class_weights = task.scheme.class_weights(
            recipe.train.class_weights, task._targets["train"]
        )
        counts = {split: len(getattr(splits, split)) for split in SPLIT_NAMES}
        task.data_info = {"set": recipe.data.set, **counts, "sha256": checksum}
        return task

    @classmethod
    def build_model(
        cls, recipe: ClassificationRecipe, tokenizer: Tokenizer, labels: Sequence[str]
    ) -> TextClassifier:
        model = build_classifier(recipe.model, len(tokenizer), len(labels))
        model.read_vocabulary([tokenizer.id_to_token(k) for k in range(len(tokenizer))])
        return model

    @classmethod
    def list_datasets(cls) -> tuple[str, ...]:
        return list_datasets()

    @property
    def padding(self) -> Padding:
        """How the model treats padding; n-gram models never see it."""
        model = self.recipe.model
        return model.padding if isinstance(model, ClassifierConfig) else "masked"

    def token_tables(self) -> dict[str, Tokenizer]:
        return dict.fromkeys(("embedding.weight", "body.embedding.weight"), self.tokenizer)

    def measure_unknown_rate(self) -> float:
        return unknown_rate((ids, self.tokenizer) for ids in self._sequences["train"])

    # -- encoding ----------------------------------------------------------------------------------

    def encode_splits(
        self,
        splits: Splits,
        names: Sequence[str] = SPLIT_NAMES,
        *,
        checksum: str = "",
        progress: ProgressCallback | None = None,
    ) -> None:
        """Encode the examples of some splits; those of large ones with a `checksum` are cached."""
        encoded: dict[str, RaggedArray] = {}
        key = checksum if _count_characters(splits) > MIN_CACHED_CHARACTERS else ""
        stages, limit = split_progress(progress, len(names)), self.recipe.data.max_length
        for split, report in zip(names, stages, strict=True):
            examples: Sequence[Example] = getattr(splits, split)
            targets = [self.scheme.encode(e) for e in examples]
            known = [e for e, target in zip(examples, targets, strict=True) if target is not None]
            self._unseen_label_counts[split] = len(targets) - len(known)
            if targets and not known:
                raise UserError(f"{splits.name}: no {split} example has a label seen in training")
            texts = report_items((e.text for e in known), len(known), report)
            encoded[split] = self._encode_texts(texts, key and f"{key} {split} {limit}")
            self._targets[split] = [target for target in targets if target is not None]
            # Those of the training are used once: they would take most of the memory.
            self.examples[split] = [] if split == "train" else known
        overlap = find_text_overlap((*splits.train, *splits.validation), self.examples["test"])
        self._overlap = list(overlap.second_indices)
        if "train" in encoded:
            self.model.prepare(encoded["train"], self.scheme.stack(self._targets["train"]).numpy())
        self._sequences = {split: self._featurize_batch(texts) for split, texts in encoded.items()}

    def _encode_texts(self, texts: Iterable[str], key: str) -> RaggedArray:
        """Return the ids of texts, truncated; with a key in a file of the user's cache."""
        limit = self.recipe.data.max_length
        heads = (text[: MAX_TOKEN_CHARACTERS * limit] for text in texts)
        return encode_short_texts(heads, self.tokenizer, lambda rows: rows.truncate(limit), key)

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text, truncated to data.max_length."""
        limit = self.recipe.data.max_length
        return self.tokenizer.encode(text[: MAX_TOKEN_CHARACTERS * limit])[:limit]

    def encode_with_spans(self, text: str) -> tuple[list[int], list[Span], int]:
        head = text[: MAX_TOKEN_CHARACTERS * self.recipe.data.max_length]
        spans = self.tokenizer.find_spans(head)
        ids = self.encode(text)[: self._fixed_length()]
        end = spans[len(ids) - 1][1] if 0 < len(ids) < len(spans) else len(head)
        rest = text[end:]
        return ids, spans[: len(ids)], len(rest) if rest.strip() else 0

    def token_slice(self, num_tokens: int, width: int) -> slice:
        """Return where the tokens of a text are in a padded row."""
        start = len(self.tokenizer.prefix_ids)
        if self.padding == "left":
            start = width - num_tokens - len(self.tokenizer.suffix_ids)
        return slice(start, start + num_tokens)

    def _featurize_batch(self, texts: Sequence[Row]) -> RaggedArray:
        """Return the model's input for texts: their ids between those that the model expects."""
        prefix, suffix = self.tokenizer.prefix_ids, self.tokenizer.suffix_ids
        if prefix or suffix:
            texts = RaggedArray.build([[*prefix, *ids, *suffix] for ids in texts], "int32")
        return self.model.featurize_batch(texts)

    def _collate(
        self, split: str, batch: Sequence[int], device: torch.device
    ) -> tuple[Tensor, Tensor, Tensor]:
        ids, lengths = self._pad([self._sequences[split][i] for i in batch])
        targets = self.scheme.stack([self._targets[split][i] for i in batch])
        return ids.to(device), lengths.to(device), targets.to(device)

    def _pad(self, sequences: Sequence[IdSequence]) -> tuple[Tensor, Tensor]:
        return pad(sequences, length=self._fixed_length(), pad_left=self.padding == "left")

    def _fixed_length(self) -> int | None:
        """Return the length that all texts are padded to, if there is one."""
        if self.model.fixed_length:
            return self.model.fixed_length
        return self.recipe.data.max_length if self.padding != "masked" else None

    # -- training ----------------------------------------------------------------------------------

    def batches(self, epoch: int) -> list[list[int]]:
        """Return batches of examples of similar length."""
        lengths = self._sequences["train"].lengths
        size = self.recipe.train.batch_size
        pool = 1 if self._fixed_length() else 50
        return make_batches(lengths, size, seed=self.recipe.seed, epoch=epoch, pool=pool)

    def weight(self, batch: Sequence[int]) -> int:
        return len(batch)

    def describe(self, batch: Sequence[int], split: str = "train") -> str:
        max_length = max(len(self._sequences[split][i]) for i in batch)
        return f"a batch of {len(batch):,} texts, the longest of {max_length:,} tokens"

    def loss(self, batch: Sequence[int], device: torch.device) -> BatchLoss:
        """Compute the mean cross-entropy of a batch, and the number of correct predictions."""
        ids, lengths, targets = self._collate("train", batch, device)
        logits = self.model(ids, lengths)
        correct = float(self.scheme.is_correct(logits, targets).sum())
        smoothing = self.recipe.train.label_smoothing
        loss = self.scheme.loss(logits, targets, smoothing, self.class_weights)
        return BatchLoss(loss, {"accuracy": correct})

    def sample_inputs(self) -> list[str]:
        """Return a validation text of each of the first two labels."""
        texts: dict[str | None, str] = {}
        for example in self.examples.get("validation", ()):
            texts.setdefault(example.label, example.text)
        return [*texts.values()][:2]

    def count_validation_tokens(self) -> int:
        return int(self._sequences["validation"].lengths.sum())

    def evaluate(self, process_group: ProcessGroup) -> dict[str, float]:
        """Compute loss, accuracy and the metric that chooses the best epoch on validation data.

        With data.watch_test, also on the test data. Losses are without class weights.
        """
        metrics: dict[str, float] = {}
        for split in ("validation", "test") if self.recipe.data.watch_test else ("validation",):
            if self._sequences[split]:
                stride = self.eval_stride if split == "validation" else 1
                logits, targets = self.compute_split_logits(split, process_group, stride)
                measured = self.scheme.measure(logits, targets)
                metrics[f"{split}_loss"] = float(self.scheme.loss(logits, targets))
                for name in ("accuracy", self.recipe.train.metric):
                    if name in measured:
                        metrics[f"{split}_{name}"] = measured[name]
        return metrics

    def test(self, process_group: ProcessGroup) -> dict[str, Any]:
        """Compute all metrics on the test data, and under `classes` those of each class.

        If test texts are in the training or validation data, the accuracy without them as well.
        """
        if not self._sequences.get("test"):
            return {}
        return self._measure_test(*self.compute_split_logits("test", process_group))

    def _measure_test(self, logits: Tensor, targets: Tensor) -> dict[str, Any]:
        correct = self.scheme.is_correct(logits, targets).float()
        measured = self.scheme.measure(logits, targets)
        metrics: dict[str, Any] = {
            "test_accuracy": measured.pop("accuracy"),
            "test_loss": float(self.scheme.loss(logits, targets)),
            "test_examples": len(targets),
            **{f"test_{name}": value for name, value in measured.items()},
        }
        if 0 < len(self._overlap) < len(targets):
            unseen = torch.ones(len(targets), dtype=torch.bool)
            unseen[self._overlap] = False
            metrics["test_overlap"] = len(self._overlap)
            metrics["test_accuracy_without_overlap"] = float(correct[unseen].mean())
        if self._unseen_label_counts["test"]:
            metrics["test_unseen_labels"] = self._unseen_label_counts["test"]
        scores = self.scheme.count(logits, targets).list_scores(self.labels)
        return {**metrics, "classes": {score.label: score.to_dict() for score in scores}}

    def score_baselines(self) -> dict[str, float]:
        """Score the majority class, and naive Bayes on the features of the model."""
        if not self._targets.get("test"):
            return {}
        train, test = (self._sequences[split] for split in ("train", "test"))
        train_targets, test_targets = (
            self.scheme.stack(self._targets[split]).view(len(sequences), -1).long().numpy()
            for split, sequences in (("train", train), ("test", test))
        )
        return {
            "majority class": score_majority(train_targets, test_targets),
            "naive Bayes": score_naive_bayes(train, train_targets, test, test_targets),
        }

    def evaluate_on(self, data: str | None = None) -> dict[str, Any]:
        """Compute the metrics on a dataset's test split, a file, or the recipe's test split."""
        self.encode_splits(self._load_evaluation_splits(data), ("test",))
        return self.test(self.local_group)

    def evaluate_ensemble(
        self, others: Sequence["Classification"], data: str | None = None
    ) -> dict[str, Any]:
        """Compute the metrics of the mean probabilities of several classifiers."""
        members = [self, *others]
        probabilities, texts = [], []
        for task in members:
            if task.labels != self.labels or type(task.scheme) is not type(self.scheme):
                raise UserError("the classifiers have different labels: an ensemble needs the same")
            task.encode_splits(task._load_evaluation_splits(data), ("test",))
            texts.append([example.text for example in task.examples["test"]])
            if texts[-1] != texts[0]:
                raise UserError("the classifiers have different test texts: give --data")
            logits, targets = task.compute_split_logits("test", task.local_group)
            probabilities.append(task.scheme.probabilities(logits).double())
        mean = torch.stack(probabilities).mean(0)
        logits = mean.log() if isinstance(self.scheme, SingleLabel) else mean.logit()
        return {**self._measure_test(logits.float(), targets), "classifiers": len(members)}

    def _load_evaluation_splits(self, data: str | None) -> Splits:
        config = self.recipe.data
        check_test_data(self.recipe, data)
        if data is None or data in list_datasets():
            splits = load_splits(self.recipe, data)
            if data is None:
                self.check_trained_on(splits.checksum)
            if data in (None, config.set):
                return splits
            return Splits(splits.name, (), (), splits.test)  # this model saw other training data
        examples = read_examples(
            data,
            text=config.text,
            label=config.label,
            label_delimiter=_label_delimiter(config),
            skip_missing=config.skip_missing,
        )
        return Splits(data, (), (), tuple(examples))

    # -- predictions -------------------------------------------------------------------------------

    @torch.no_grad()
    def compute_split_logits(
        self, split: str, process_group: ProcessGroup, stride: int = 1
    ) -> tuple[Tensor, Tensor]:
        """Return the logits of every `stride`-th example of a split, in order, and their targets.

        Each process computes its share of every batch; all of them get all logits.
        """
        lengths = self._sequences[split].lengths[::stride]
        result = torch.zeros(len(lengths), len(self.labels))
        batches = make_batches(lengths, EVAL_BATCH_SIZE, seed=0, shuffle=False)
        for done, rows in enumerate(batches):
            self.on_progress(done, len(batches))
            batch = [row * stride for row in rows]
            share = list(process_group.shard_batch(batch))
            # A sharded model needs all processes in every forward pass, even without a share.
            with oom_hint(f"while evaluating {self.describe(batch, split)}"):
                ids, ends, _ = self._collate(split, share or batch[:1], process_group.device)
                logits = self.model(ids, ends).float().cpu()
            if share:
                result[[k // stride for k in share]] = logits
        targets = self.scheme.stack(self._targets[split][::stride])
        return process_group.all_reduce_rows(result), targets

    @torch.no_grad()
    def predict(self, texts: Sequence[str]) -> Tensor:
        """Return the class probabilities of texts, `[texts, classes]`."""
        self.model.eval()
        logits = self.compute_logits([self.encode(text) for text in texts])
        return self.scheme.probabilities(logits).cpu()

    def compute_logits(self, encoded: Sequence[Sequence[int]]) -> Tensor:
        """Return the logits of texts given as ids, `[texts, classes]`."""
        ids, lengths = self._pad(self._featurize_batch(encoded))
        logits: Tensor = self.model(ids.to(self.device), lengths.to(self.device))
        return logits.float()

    def predict_sources(self, sources: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Predict the labels of texts, files of texts, or standard input (`-`).

        An error in a file is raised after the texts before it are predicted.
        """
        texts = ItemsUntilError(read_texts(sources, self.recipe.data.text))
        yield from self.predict_iter(texts)
        texts.raise_error()

    def predict_iter(self, texts: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Predict the labels of an iterable of texts, batch by batch."""
        remaining = iter(texts)
        while batch := list(islice(remaining, PREDICTION_BATCH_SIZE)):
            for text, row in zip(batch, self.predict(batch).tolist(), strict=True):
                pairs = zip(self.labels, row, strict=True)
                yield {
                    "text": text,
                    **self.scheme.to_dict(row),
                    "probabilities": {label: round(p, 6) for label, p in pairs},
                }

    def respond(self, model_input: ModelInput, logits: Tensor | None = None) -> Response:
        text = check_text(model_input)
        ids, spans, num_truncated = self.encode_with_spans(text)
        if not ids:
            raise UserError("the text has no tokens: enter a text")
        probabilities = self.scheme.probabilities
        return Response(
            self.scheme.description,
            tokens=[show_whitespace(text[a:b]) for a, b in spans],
            probabilities=self.predict([text])[0] if logits is None else probabilities(logits),
            name_of=lambda k: self.labels[k],
            notes=[f"the last {num_truncated:,} characters were cut off"] if num_truncated else [],
        )

    def predict_held_out(self) -> SplitPredictions | None:
        split = "test" if self.examples.get("test") else "validation"
        if not self.examples.get(split):
            return None
        logits, targets = self.compute_split_logits(split, self.local_group)
        texts = [example.text for example in self.examples[split]]
        names = [self.scheme.name_of(target) for target in self._targets[split]]
        return SplitPredictions(split, texts, logits, targets, names, self.scheme)

    # -- looking inside ----------------------------------------------------------------------------

    def plan_attention(
        self, model_input: ModelInput, target: Generation | str | None, options: PassOptions
    ) -> AttentionPass:
        text = check_text(model_input)
        check_no_target(target)
        (part,) = options.select_parts("a classifier", ("encoder",))
        layer_paths = require_layers(self.model, part)
        ids, spans, num_truncated = self.encode_with_spans(text)
        count = options.limit_tokens(len(ids))
        ids, spans = ids[:count], spans[:count]
        prefix, suffix = (
            [self.tokenizer.id_to_token(k) for k in frame]
            for frame in (self.tokenizer.prefix_ids, self.tokenizer.suffix_ids)
        )
        framed = [*prefix, *(text[a:b] for a, b in spans), *suffix]
        width = len(framed) if self.padding == "masked" else self.recipe.data.max_length
        if options.max_tokens is not None and not options.truncate:
            check_count(width, options.max_tokens)  # padding that is not masked has weights, too
        start = self.token_slice(count, width).start - len(prefix)
        token_slice = slice(start, start + len(framed))
        tokens = [PAD_TOKEN] * width
        tokens[token_slice] = framed
        return AttentionPass(
            self.model,
            lambda: self.compute_logits([ids])[0],
            [
                StackSpec(
                    part,
                    layer_paths,
                    tokens,
                    tokens,
                    is_causal=self.model.is_causal,
                    token_slice=token_slice,
                )
            ],
            text,
            truncated_characters=max(num_truncated, len(text[spans[-1][1] :].strip())),
        )

    def summarize_model(self) -> ModelSummary:
        return summarize(self.model, self.model.fixed_length or self.recipe.data.max_length)

    @classmethod
    def summarize_recipe(
        cls, recipe: ClassificationRecipe, vocab_size: int, num_classes: int
    ) -> ModelSummary:
        model = build_classifier(recipe.model, vocab_size, num_classes)
        return summarize(model, model.fixed_length or recipe.data.max_length)

    def export(self, exporter: ModelExporter) -> list[str]:
        data, train = self.recipe.data, self.recipe.train
        return exporter.export_classifier(
            self.model,
            self.tokenizer,
            self.labels,
            RowFormat(data.max_length, self._fixed_length(), self.padding == "left"),
            train.threshold if data.multi_label else None,
        )

    # -- the run folder ----------------------------------------------------------------------------

    @property
    def preprocessing(self) -> tuple[Tokenizer, tuple[str, ...]]:
        return self.tokenizer, self.labels

    @classmethod
    def load_preprocessing(
        cls, folder: Path, recipe: ClassificationRecipe
    ) -> tuple[Tokenizer, tuple[str, ...]]:
        del recipe
        return load_tokenizer(folder / "tokenizer.json"), _read_labels(folder / "labels.json")

    def save(self, folder: Path) -> None:
        """Write the tokenizer and the labels."""
        self.tokenizer.save(folder / "tokenizer.json")
        write_json(folder / "labels.json", {"labels": list(self.labels)})

    def fingerprint(self) -> dict[str, Any]:
        digest = hashlib.sha256(repr(self.labels).encode())
        for sequence in self._sequences["train"][:1000]:
            digest.update(np.asarray(sequence, dtype=np.int64).tobytes())
        return {**self.data_info, "tokens": len(self.tokenizer), "ids": digest.hexdigest()[:16]}


def load_splits(
    recipe: ClassificationRecipe,
    data: str | None = None,
    *,
    progress: ProgressCallback | None = None,
) -> Splits:
    """Read the dataset of a recipe, or another one in the same way."""
    config = recipe.data
    return load_dataset(
        data or config.set,
        validation=config.validation,
        seed=recipe.seed,
        text=config.text,
        label=config.label,
        label_delimiter=_label_delimiter(config),
        skip_missing=config.skip_missing,
        progress=progress,
    )


def _train_tokenizer(
    recipe: ClassificationRecipe,
    splits: Splits,
    checksum: str,
    progress: ProgressCallback | None,
) -> Tokenizer:
    """Train the tokenizer on the training texts; from many of them it is cached."""
    config, size = recipe.tokenizer, len(splits.train)

    def train() -> Tokenizer:
        texts = report_items((e.text for e in splits.train), size, progress)
        return train_tokenizer(
            config.kind, texts, config.vocab_size, config.min_count, pad_to=config.padded_vocab_size
        )

    if _count_characters(splits) <= MIN_CACHED_CHARACTERS:
        return train()
    return train_cached_tokenizer(train, f"{checksum} {json.dumps(to_table(config))}")


def _count_characters(splits: Splits) -> int:
    return sum(len(e.text) for split in SPLIT_NAMES for e in getattr(splits, split))


def _label_delimiter(config: ClassificationDataConfig) -> str | None:
    return config.label_delimiter if config.multi_label else None


def make_scheme(recipe: ClassificationRecipe, labels: Sequence[str]) -> LabelScheme:
    """Return what a recipe states about labels: one of each text, or several."""
    if recipe.data.multi_label:
        return MultiLabel(labels, recipe.train.threshold)
    return SingleLabel(labels)


def _list_labels(recipe: ClassificationRecipe, splits: Splits) -> tuple[str, ...]:
    """Return the labels; refuse data without any text, or with fewer than two labels."""
    name, labels = recipe.data.set, make_scheme(recipe, ()).list_labels(splits.train)
    examples = [getattr(splits, split) for split in SPLIT_NAMES]
    if not any(e.text.strip() for split in examples for e in split):
        count = sum(map(len, examples))
        raise UserError(
            f"{name}: all {count:,} texts are empty: data.text is the column of the texts"
        )
    if len(labels) < 2:
        problem = "only one label" if labels else "no label"
        raise UserError(f"{name}: {problem} in the training examples: at least two are needed")
    return labels


def _read_labels(path: Path) -> tuple[str, ...]:
    labels = read_json(path).get("labels")
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise CorruptFileError(f"{path}: it has no list of labels")
    return tuple(labels)


def read_texts(sources: Iterable[str], column: str) -> Iterator[str]:
    """Yield the texts of each source: `-` is standard input; if it is not a file, it is a text."""
    for source in sources:
        if source == "-":
            yield from (e.text for e in read_examples(sys.stdin.buffer, format="text", label=None))
        elif path := existing_path(source):
            if path.is_dir():
                raise UserError(
                    f"{source}: a folder: give a text, a file, or - (one text per line)"
                )
            yield from (e.text for e in read_examples(source, text=column, label=None))
        elif source.endswith(FILE_SUFFIXES) and " " not in source:
            raise UserError(
                f"{source}: no such file (if it is a text, pass it through standard input: -)"
            )
        else:
            yield source
