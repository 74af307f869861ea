"""The base classes of tasks: what the trainer needs of one, and what its trained model can do.

`Seq2SeqTask` is the base of the tasks whose models generate a target text from a source.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from workings.config import check_choice
from workings.data.batching import IdSequence, pad
from workings.data.download import ProgressCallback
from workings.data.tokenizers.base import Span, Tokenizer, TokenizerPair
from workings.decode import GREEDY, Hypothesis, Sampling, generate, length_limits
from workings.distributed import ProcessGroup
from workings.errors import UserError
from workings.models.seq2seq import PAD, START, ConditionalDecoder, SourceBatch
from workings.models.summary import ModelSummary, summarize
from workings.modules import (
    device_of,
    load_unique_state_dict,
    meta_device,
    skip_random_init,
    unique_state_dict,
)
from workings.recipes import CaptionRecipe, Recipe, TranslationRecipe
from workings.registry import METRICS
from workings.storage import CorruptFileError, read_tensors
from workings.tasks.labels import LabelScheme

if TYPE_CHECKING:
    from workings.models.captioning import Captioner
    from workings.models.classifier_base import TextClassifier
    from workings.models.language import LanguageModel
    from workings.models.translation import Translator
    from workings.tasks.attention import AttentionPass, PassOptions

IMPORTED = "imported"
"""The data set of imported models, whose training data are not here."""
SPLIT_NAMES = ("train", "validation", "test")
SUMMARY_LENGTH = 20  # tokens that the layer table of a translator or captioner is computed for
MAX_SAMPLED_TEXTS = 20_000  # by which the rate of unknown tokens is measured
MAX_LOSS = 700.0  # nats: exp of more overflows
_EXPECTED = "expected a classifier, language model, translator or captioner"
_OOM_PHRASES = (
    "can't allocate",
    "not enough memory",
    "out of memory",
    "bad allocation",
    "bad_alloc",
)

ImageArray: TypeAlias = UInt8[np.ndarray, "size size 3"]
ModelInput: TypeAlias = str | ImageArray
"""a text, or the image of a captioner"""


@dataclass
class BatchLoss:
    """The mean loss of a batch, and sums over it of other metrics, to be averaged per epoch."""

    mean: Tensor
    sums: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Generation:
    """A generated text: its tokens, its log probability, and the score it was ranked by."""

    text: str
    tokens: tuple[int, ...]
    log_probability: float
    score: float


@dataclass(frozen=True)
class GeneratedToken:
    """A generated token: the text it adds, its name, its probability, and the alternatives."""

    text: str
    token: str
    """its own text, or its name if it is a special token or a part of a character"""
    probability: float
    alternatives: tuple[tuple[str, float], ...]
    """tokens and their probabilities"""


@dataclass(frozen=True, eq=False)
class Response:
    """A model's response to one input: probabilities of classes or tokens, or a generated text."""

    description: str
    tokens: Sequence[str] = ()
    """of the input text, with visible whitespace"""
    probabilities: Float[Tensor, " outcomes"] | None = None
    name_of: Callable[[int], str] = str
    """returns the class or token of an index of `probabilities`"""
    generation: Generation | None = None
    notes: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class SplitPredictions:
    """The logits of a classifier for the texts of a split, and their targets."""

    split: str
    texts: Sequence[str]
    logits: Float[Tensor, "texts classes"]
    targets: Int[Tensor, " texts"] | Float[Tensor, "texts classes"]
    target_names: Sequence[str]
    scheme: LabelScheme


@dataclass(frozen=True, eq=False)
class CaptionSample:
    """An image of a split, its reference captions and the model's caption."""

    split: str
    name: str
    image: ImageArray
    references: Sequence[str]
    caption: Generation


@dataclass(frozen=True)
class RowFormat:
    """How a classifier's texts become rows of ids: cut at `max_length`, and padded with id 0."""

    max_length: int
    padded_length: int | None
    """The length of every row, if the model needs one."""
    pads_left: bool


class ModelExporter(Protocol):
    """Writes models in the formats of other programs; each method returns notes for the user."""

    def export_language_model(self, model: "LanguageModel", tokenizer: Tokenizer) -> list[str]: ...
    def export_translator(self, model: "Translator", tokenizers: TokenizerPair) -> list[str]: ...
    def export_classifier(
        self,
        model: "TextClassifier",
        tokenizer: Tokenizer,
        labels: Sequence[str],
        row_format: RowFormat,
        threshold: float | None,
    ) -> list[str]: ...
    def export_captioner(
        self, model: "Captioner", tokenizer: Tokenizer, image_size: int
    ) -> list[str]: ...


def _ignore_progress(done: int, total: int) -> None:
    pass


class Task(ABC):
    """Data, model, loss and metric of one kind of learning problem.

    A task is constructed from a recipe, its fitted preprocessing (such as a tokenizer) and a model.
    The abstract methods are enough to train, save, load and resume it. Methods that use a trained
    model raise a UserError until a task overrides them.
    """

    model: nn.Module
    recipe: Recipe
    data_info: dict[str, Any]  # name (`set`), sizes and checksum of the training data
    files: tuple[str, ...] = ()  # what `save` writes beside the weights
    metric: str = "validation_loss"  # by which the best epoch is chosen
    higher_is_better: bool = False
    selectable_metrics: Mapping[str, bool] = MappingProxyType({"loss": False})
    """names that `train.metric` may have, and whether a higher value is better"""
    baseline_metric: str = ""  # of the result, to which the baselines compare
    batch_unit: str = "examples"  # what `weight` counts
    data_unit: str = "examples"  # what `data_info` counts
    noun: str = "custom model"  # what messages call the model
    verb: str = "evaluate"  # the command that uses such a run
    metrics: Mapping[str, "Callable[[Any], float]"] = {}  # further validation metrics, by name
    callbacks: Sequence["Callable[[dict[str, Any]], None]"] = ()  # called after each epoch
    history: Sequence[Mapping[str, Any]] = ()  # the log's record of each epoch
    eval_tokens: int | None = None  # limit of what `evaluate` measures; None: all of it
    on_progress: ProgressCallback = staticmethod(_ignore_progress)
    """called with the batches done and to do, by all processes at the same batches"""

    labels: tuple[str, ...] = ()  # the classes of a classifier
    is_seq2seq: bool = False  # the model generates a target text from a source
    image_size: int = 0  # height and width of the images that it reads; 0: it reads text

    # -- training ----------------------------------------------------------------------------------

    @abstractmethod
    def batches(self, epoch: int) -> Sequence[Sequence[Any]]:
        """Return the training batches of an epoch as indices, the same at every call.

        Each process takes its share of every batch.
        """

    @abstractmethod
    def loss(self, batch: Sequence[Any], device: torch.device) -> BatchLoss:
        """Compute the loss of a batch, or of a process's share of one."""

    @abstractmethod
    def evaluate(self, process_group: ProcessGroup) -> dict[str, float]:
        """Compute the metrics on the validation data."""

    def count_validation_tokens(self) -> int:
        """Return the size of the validation data; 0: `test` measures them."""
        return 0

    @property
    def eval_stride(self) -> int:
        """Every how many validation examples `evaluate` measures one, to keep to the limit."""
        if self.eval_tokens is None:
            return 1
        return max(math.ceil(self.count_validation_tokens() / self.eval_tokens), 1)

    def weight(self, batch: Sequence[Any]) -> int:
        """Return the number of examples or tokens that the loss of a batch is averaged over."""
        return len(batch)

    def describe(self, batch: Sequence[Any]) -> str:
        """Describe a batch in a few words, for error messages."""
        return f"a batch of {len(batch):,} {self.data_unit}"

    def select_metric(self, name: str) -> None:
        """Choose the metric by which the best epoch is chosen: of the task, the user or a plug-in.

        A function that states no direction is better the higher it is.
        """
        functions: dict[str, Callable[[Any], float]] = {**METRICS, **self.metrics}
        if name in self.selectable_metrics:
            self.higher_is_better = self.selectable_metrics[name]
        elif name in functions:
            self.metrics = {**self.metrics, name: functions[name]}
            self.higher_is_better = getattr(functions[name], "higher_is_better", True)
        else:
            self.check_metric(name, self.selectable_metrics)
        self.metric = f"validation_{name}"

    @classmethod
    def check_metric(cls, name: str, names: Iterable[str] | None = None) -> None:
        """Raise a UserError if a metric is none of the task's (or of `names`) nor of a plug-in."""
        check_choice("train.metric", name, (*(names or cls.selectable_metrics), *METRICS))

    def validate(self, process_group: ProcessGroup) -> dict[str, float]:
        """Compute the metrics on the validation data, those that the user added included."""
        added = {f"validation_{name}": float(f(self)) for name, f in self.metrics.items()}
        return {**self.evaluate(process_group), **added}

    def sample_inputs(self) -> list[str]:
        """Return a few texts of the validation data, as inputs to begin with."""
        return []

    def sample_outputs(self) -> dict[str, Any]:
        """Return sample outputs of the model, to be logged after an epoch."""
        return {}

    def state_dict(self) -> dict[str, Tensor]:
        """Return the state that this process carries from step to step, for a checkpoint.

        Tensors are on the CPU, with a row for each item of this process's share of a batch.
        """
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore the state of a checkpoint; raise ValueError if it does not fit."""
        if state:
            raise ValueError("this task has no state to restore")

    # -- the run -----------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def from_recipe(
        cls, recipe: Any, progress: ProgressCallback | None = None, *, tokenizer: Any = None
    ) -> Self:
        """Read the data of a recipe, fit the preprocessing and build a new model.

        `progress` is called while data are downloaded or decoded. `tokenizer`, of a translator
        both of them, is used instead of a new one, for fine-tuning.
        """

    @classmethod
    @abstractmethod
    def build_model(cls, recipe: Any, *preprocessing: Any) -> nn.Module:
        """Build the model of a recipe with new weights."""

    @classmethod
    def load(cls, folder: Path, recipe: Any, run_id: str | None = None) -> Self:
        """Load a run's preprocessing and best weights; check the weights' run id, if given."""
        preprocessing = cls.load_preprocessing(folder, recipe)
        model = build_from_file(
            lambda: cls.build_model(recipe, *preprocessing), folder / "model.safetensors", run_id
        )
        return cls(recipe, *preprocessing, model)  # type: ignore[call-arg] # see the class docstring

    @property
    def preprocessing(self) -> tuple[Any, ...]:
        """The constructor's arguments between recipe and model: what `save` writes."""
        return ()

    @classmethod
    def load_preprocessing(cls, folder: Path, recipe: Any) -> tuple[Any, ...]:
        """Read what `save` wrote."""
        del folder, recipe
        return ()

    def save(self, folder: Path) -> None:
        """Write the preprocessing: `files`."""
        del folder

    def matches_folder(self, folder: Path) -> bool:
        """Return True if a run has the same preprocessing."""
        return self.load_preprocessing(folder, self.recipe) == self.preprocessing

    def with_weights(self, weights: dict[str, Tensor]) -> Self:
        """Return a copy of this task, on the same data, whose own model has these weights.

        The model of this one may be compiled, or sharded over several processes.
        """
        model = self.build_model(self.recipe, *self.preprocessing)
        load_unique_state_dict(model, weights)
        other = copy(self)
        other.model = model.eval()
        return other

    @property
    def initial_weights(self) -> str:
        """How the training began, for the report."""
        start = self.recipe.start_from
        return f"from the weights of {start}" if start else "from scratch"

    def token_tables(self) -> dict[str, Tokenizer]:
        """Return the tokenizer of each weight that has a row per token, for fine-tuning."""
        return {}

    def measure_unknown_rate(self) -> float:
        """Return the fraction of the training tokens that are unknown, for fine-tuning."""
        return 0.0

    def fingerprint(self) -> dict[str, Any]:
        """Return what must be equal in all processes: the data, and how they are encoded."""
        return self.data_info

    def test(self, process_group: ProcessGroup) -> dict[str, Any]:
        """Compute the metrics on the test data, once, after training; none without test data."""
        del process_group
        return {}

    def score_baselines(self) -> dict[str, float]:
        """Score what a model should beat on the test data, by the name of each baseline.

        The numbers compare to the metric `baseline_metric`.
        """
        return {}

    def evaluate_on(self, data: str | None = None) -> dict[str, Any]:
        """Compute the metrics on a named dataset or a file; None: on the recipe's test data."""
        raise UserError(
            f"{data or 'test data'}: a {self.noun} has no evaluation of its own: use your own code"
        )

    @classmethod
    def list_datasets(cls) -> tuple[str, ...]:
        """Return the names that `data.set` may have, besides those of files."""
        return ()

    # -- using the model ---------------------------------------------------------------------------

    def respond(self, model_input: ModelInput, logits: Tensor | None = None) -> Response:
        """Return the model's response to one input.

        `logits` are those of a forward pass over the input, if one has run already.
        """
        del model_input, logits
        raise UserError(f"a {self.noun} does not respond to single inputs: {_EXPECTED}")

    def plan_attention(
        self, model_input: ModelInput, target: Generation | str | None, options: "PassOptions"
    ) -> "AttentionPass":
        """Return the forward pass over an input (and a target) whose attention can be traced.

        A model with a decoder gets its own output as the target by default.
        """
        del model_input, target, options
        raise UserError(f"a {self.noun} has no attention: {_EXPECTED}")

    def encode_with_spans(self, text: str) -> tuple[list[int], list[Span], int]:
        """Return the ids that the model reads, their spans in the text, and the truncated rest.

        The rest is counted in characters; whitespace alone counts as none.
        """
        del text
        raise UserError(
            f"a {self.noun} reads no text: expected a classifier, language model or translator"
        )

    def stream(
        self,
        prompt: str,
        max_tokens: int = 200,
        sampling: Sampling = GREEDY,
        stop_strings: Sequence[str] = (),
        num_alternatives: int = 0,
    ) -> Iterator[GeneratedToken]:
        """Yield the tokens of a continuation, up to a stop string (which is left out)."""
        del prompt, max_tokens, sampling, stop_strings, num_alternatives
        raise UserError("only a language model can continue a text")

    def split_generation(self, generation: Generation) -> list[str]:
        """Return the text that each token of a translation or caption adds."""
        del generation
        raise UserError(
            f"a {self.noun} generates no text from a source: expected a translator or captioner"
        )

    def override_search(self, **options: Any) -> None:
        """Replace options of the recipe's beam search, such as `beams`."""
        for name in options:
            raise UserError(f"{name}: beam search is for translators and captioners")

    def evaluate_on_images(self, data: str, images: Path) -> dict[str, Any]:
        """Compute the metrics on a file of captions whose images are in a folder or archive."""
        del data
        raise UserError(f"{images}: a {self.noun} reads no images: expected a captioner")

    def predict_held_out(self) -> SplitPredictions | None:
        """Return a classifier's logits on the test data (or validation data); None: no classes."""
        return None

    def caption_held_out(self, count: int) -> Sequence[CaptionSample]:
        """Return a captioner's captions of some test images (or validation images)."""
        del count
        return ()

    def export(self, exporter: ModelExporter) -> list[str]:
        """Write the model and its tokenizers in the exporter's format; return notes."""
        del exporter
        raise UserError(f"a {self.noun} cannot be exported: {_EXPECTED}")

    def summarize_model(self) -> ModelSummary | None:
        """Return the layer table of the model; None if its inputs are not known."""
        return None

    @classmethod
    def summarize_recipe(cls, recipe: Any, vocab_size: int, num_classes: int) -> ModelSummary:
        """Return the layer table of a recipe's model, given its vocabulary and classes."""
        del vocab_size, num_classes
        raise UserError(f"no layer table for the task {recipe.task!r}")

    def summarize(self) -> ModelSummary:
        """Return the layer table of the model, with its own vocabulary and classes."""
        default = self.recipe.tokenizer.vocab_size if hasattr(self.recipe, "tokenizer") else 0
        sizes = [len(tokenizer) for tokenizer in self.token_tables().values()]
        return self.summarize_recipe(self.recipe, max(sizes, default=default), len(self.labels))

    # -- helpers -----------------------------------------------------------------------------------

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return device_of(self.model)

    @property
    def local_group(self) -> ProcessGroup:
        """A process group of this process alone."""
        return ProcessGroup(self.device)

    def check_trained_on(self, sha256: str) -> None:
        """Refuse data that have changed since the training: other examples would be held out."""
        if self.data_info.get("sha256", sha256) != sha256:
            raise UserError(
                f"{self.recipe.data.set} is not what this run was trained on: what was held out "
                "cannot be reproduced; --data FILE evaluates on all of a file"
            )


def unknown_rate(sequences: Iterable[tuple[IdSequence, Tokenizer]]) -> float:
    """Return the fraction of unknown tokens in the first of some encoded texts."""
    unknown = total = 0
    for ids, tokenizer in islice(sequences, MAX_SAMPLED_TEXTS):
        unknown += int(np.count_nonzero(np.asarray(ids) == tokenizer.unk_id))
        total += len(ids)
    return unknown / max(total, 1)


def check_text(model_input: ModelInput) -> str:
    """Return the text of an input; raise UserError if it is an image."""
    if not isinstance(model_input, str):
        raise UserError("an image needs a captioner: this model reads texts")
    return model_input


def check_test_data(recipe: Recipe, data: str | None) -> None:
    """Raise UserError if an imported model is to be evaluated without other data."""
    if data is None and recipe.data.set == IMPORTED:
        raise UserError("an imported model has no test data of its own: --data FILE")


class Seq2SeqTask(Task):
    """Target texts, each conditioned on a source, and a decoder that generates them."""

    batch_unit = "tokens"
    is_seq2seq = True
    recipe: CaptionRecipe | TranslationRecipe
    model: ConditionalDecoder[Any]

    def __init__(self, recipe: CaptionRecipe | TranslationRecipe) -> None:
        self.recipe = recipe
        self.data_info: dict[str, Any] = {}
        self._sampling_rate = 0.0  # of scheduled sampling, in the current epoch

    @abstractmethod
    def collate(
        self, split: str, batch: Sequence[int], device: torch.device
    ) -> tuple[SourceBatch, Int[Tensor, "texts time"], Int[Tensor, "texts time"]]:
        """Return the sources of a batch, the decoder's inputs and its targets."""

    @abstractmethod
    def list_eval_batches(self, split: str) -> Sequence[Sequence[int]]:
        """Return the batches of a split for evaluation, in a fixed order."""

    @property
    @abstractmethod
    def target_tokenizer(self) -> Tokenizer:
        """The tokenizer of the generated texts."""

    def token_tables(self) -> dict[str, Tokenizer]:
        names = ("target_embedding.weight", "head.weight", "head.bias")
        return dict.fromkeys(names, self.target_tokenizer)

    def update_sampling_rate(self, epoch: int) -> None:
        """Set the rate of scheduled sampling to that of an epoch."""
        self._sampling_rate = self.recipe.scheduled_sampling.rate_at(epoch)

    def loss(self, batch: Sequence[int], device: torch.device) -> BatchLoss:
        """Compute the mean cross-entropy per target token."""
        source, inputs, targets = self.collate("train", batch, device)
        smoothing = self.recipe.train.label_smoothing
        total = self.model(source, inputs, targets, smoothing, self._sampling_rate)
        return BatchLoss(total / self.weight(batch))

    @torch.no_grad()
    def evaluate_loss(self, split: str, process_group: ProcessGroup) -> dict[str, float]:
        """Compute loss and perplexity on a split; each process takes its share of every batch."""
        nats = tokens = 0.0
        stride = self.eval_stride if split == "validation" else 1
        every = ([k for k in batch if k % stride == 0] for batch in self.list_eval_batches(split))
        batches = [batch for batch in every if batch]
        for done, batch in enumerate(batches):
            self.on_progress(done, len(batches))
            share = list(process_group.shard_batch(batch))
            # A sharded model needs all processes in every forward pass, even without a share.
            source, inputs, targets = self.collate(split, share or batch[:1], process_group.device)
            loss = float(self.model(source, inputs, targets))
            if share:
                nats, tokens = nats + loss, tokens + int((targets != PAD).sum())
        total = process_group.all_reduce_sum({"nats": nats, "tokens": tokens})
        mean = total["nats"] / total["tokens"]
        return {f"{split}_loss": mean, f"{split}_perplexity": math.exp(min(mean, MAX_LOSS))}

    def split_over_ranks(
        self,
        count: int,
        process_group: ProcessGroup,
        generate: Callable[[list[int]], Iterable[str]],
    ) -> list[str]:
        """Generate the texts of `count` sources; each process does its share of them."""
        self.model.eval()
        share = list(process_group.shard_batch(range(count)))
        generated: list[str] = []
        for text in generate(share):
            if process_group.world_size == 1:  # several have different numbers of batches
                self.on_progress(len(generated), count)
            generated.append(text)
        by_rank = process_group.all_gather_json(generated)
        texts: list[str] = [""] * count
        for rank, of_rank in enumerate(by_rank):
            texts[rank :: process_group.world_size] = of_rank  # as `shard_batch` splits them
        return texts

    def split_generation(self, generation: Generation) -> list[str]:
        return self.target_tokenizer.decode_pieces(generation.tokens)

    def summarize_model(self) -> ModelSummary:
        return summarize(self.model, SUMMARY_LENGTH, pixels=self.image_size)

    def override_search(self, **options: Any) -> None:
        search: Any = replace(self.recipe.search, **options)
        self.recipe = replace(self.recipe, search=search)


def shift_right(
    texts: Sequence[IdSequence], stop: int, device: torch.device
) -> tuple[Int[Tensor, "texts time"], Int[Tensor, "texts time"]]:
    """Return the decoder's inputs (start token, then the text) and targets (text, then stop)."""
    inputs, _ = pad([[START, *ids] for ids in texts])
    targets, _ = pad([[*ids, stop] for ids in texts])
    return inputs.to(device), targets.to(device)


def sample_texts(
    model: ConditionalDecoder[Any],
    source: SourceBatch,
    stop: int,
    sampling: Sampling,
    max_length: int | Sequence[int],
) -> list[list[Hypothesis]]:
    """Sample one text for each source from the model's distribution."""
    tokens: list[list[int]] = [[] for _ in source.start_tokens()]
    limits = length_limits(max_length, len(tokens))
    log_probabilities, done = [0.0] * len(tokens), [False] * len(tokens)
    sampling = replace(sampling, suppress_tokens=(PAD, START))
    for chosen, logits in generate(model, source, max(limits), sampling):
        log_probs = torch.log_softmax(logits.float(), -1)
        for k, token in enumerate(chosen.tolist()):
            if done[k]:
                continue
            log_probabilities[k] += float(log_probs[k, token])
            if token != stop:
                tokens[k].append(token)
            done[k] = token == stop or len(tokens[k]) == limits[k]
        if all(done):
            break
    return [
        [Hypothesis(tuple(ids), log_probability, log_probability)]
        for ids, log_probability in zip(tokens, log_probabilities, strict=True)
    ]


Model = TypeVar("Model", bound=nn.Module)


def build_from_file(build: Callable[[], Model], path: Path, run_id: str | None) -> Model:
    """Build a model and load its weights from a file; check the file's run id, if given."""
    weights = read_tensors(path, run_id=run_id)
    with meta_device():  # counts the parameters without allocating them
        size = _count_elements(unique_state_dict(build()))
    if size > _count_elements(weights):
        raise CorruptFileError(f"{path}: not the weights of this run's model, which has {size:,}")
    with skip_random_init():
        model = build()
    try:
        load_unique_state_dict(model, weights, assign=True)
    except (RuntimeError, LookupError, TypeError):
        raise CorruptFileError(f"{path}: not the weights of this run's model") from None
    return model.eval()


def _count_elements(tensors: Mapping[str, Tensor]) -> int:
    return sum(t.numel() for t in tensors.values())


@contextmanager
def oom_hint(
    activity: str, hint: str = "shorter texts or a smaller model need less"
) -> Iterator[None]:
    """Turn an out-of-memory error into a UserError that names the activity and a remedy."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise UserError(f"out of memory {activity}: {hint}") from None


def is_out_of_memory(error: Exception) -> bool:
    """Return True if an error means too little memory; torch reports that in several ways."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and any(phrase in str(error) for phrase in _OOM_PHRASES)
    )
