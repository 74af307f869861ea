"""Training on a user's own data without a recipe: choose one, say why, train, and compare."""

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch

from workings.automatic.choices import (
    MIN_ROWS_TO_COMPARE,
    Choice,
    Table,
    TrainedSize,
    choose_captioner,
    choose_classifiers,
    choose_finetuning,
    choose_language_model,
    choose_translator,
)
from workings.automatic.planning import (
    TASKS,
    LabeledData,
    plan_corpus,
    plan_labeled_data,
    plan_pairs,
)
from workings.config import check_choice, to_table
from workings.data.captions import load_captions
from workings.data.download import ProgressCallback
from workings.data.readers import Example
from workings.data.splits import Splits, hold_out
from workings.distributed import init_process_group
from workings.errors import UserError
from workings.plain_text import escape_control
from workings.recipes import (
    CaptionRecipe,
    ClassificationRecipe,
    LanguageRecipe,
    Recipe,
    TranslationRecipe,
    build_recipe,
    change_section,
)
from workings.storage import read_json, write_json
from workings.tasks.base import Task
from workings.tasks.classification import Classification
from workings.training.finetuning import PretrainedModel, adapt_recipe, check_can_learn
from workings.training.logging import Log, LogMode, read_epochs, show_data_progress
from workings.training.runs import train_recipe
from workings.training.trainer import Trainer

DEFAULT_MINUTES = 5.0
MAX_COMPARE_CHARACTERS = 2_000_000  # of the texts that candidates are compared on
COMPARE_FRACTION = 0.3  # of the time, at most, is for comparing candidates
VALIDATION_FRACTION = 0.2
RESERVED_FRACTION = 0.1  # of the time is for the test and the report
MIN_TRAINING_FRACTION = 0.2  # of the time, for training, even if reading took the rest
ENCODING_READINGS = 8  # encoding a text takes as long as reading it so many times
MAX_TEXT_TOKENS = 512  # that are read of a text, if a trained language model has no limit
IMAGE_TOKENS = 200  # steps of a captioner's encoder and decoder for an image, roughly
FLOPS_SECONDS = 0.3  # of measuring the machine
MIN_ROWS_FOR_NETWORKS = 100_000  # with fewer, they are hardly better than n-grams from scratch
BUSY_SECONDS = 20.0  # of a training that is long enough to suffer
BUSY_SHARE = 0.7  # of one processor: a training that gets less has waited for other programs


class Plan:
    """A recipe for some data, chosen within a time limit, and the lines that say why."""

    def __init__(
        self,
        task: str,
        data: str,
        minutes: float,
        stated: Mapping[str, Any] | None = None,
        pretrained: PretrainedModel | None = None,
        progress: ProgressCallback | None = None,
    ) -> None:
        check_choice("task", task, TASKS)
        if not minutes > 0:
            raise UserError(f"--minutes {minutes}: it must be positive")
        self.task, self.data, self.minutes = task, data, minutes
        self.stated, self.pretrained = stated or {}, pretrained
        self.lines: list[str] = []
        self._start = time.monotonic()
        self._min_minutes = 0.0  # that the chosen model needs, as far as it is known
        self._progress = progress
        self.recipe = self._choose()

    @property
    def elapsed_minutes(self) -> float:
        """Minutes since the data were opened."""
        return (time.monotonic() - self._start) / 60

    def minutes_left(self) -> float:
        """Return the minutes that are left for the training; a little, if they are over."""
        left = self.minutes * (1 - RESERVED_FRACTION) - self.elapsed_minutes
        least = max(MIN_TRAINING_FRACTION * self.minutes, self._min_minutes, 0.01)
        return round(max(left, least), 2)

    def _choose(self) -> Recipe:
        if self.pretrained is not None:
            return self._choose_finetuning(self.pretrained)
        if self.task == "classify":
            return self._choose_classifier()
        stated = _section(self.stated, "data")
        seed = int(self.stated.get("seed", 0))
        section: Table = {"set": self.data}
        if self.task == "language":
            corpus = plan_corpus(self.data, stated, self._progress)
            section, self.lines = corpus.section, corpus.lines
            # The text is read again, and encoded.
            left = self.minutes - (1 + ENCODING_READINGS) * self.elapsed_minutes
            left = max(left, MIN_TRAINING_FRACTION * self.minutes)
            choice = choose_language_model(corpus.statistics, left, measure_flops())
        elif self.task == "translate":
            pairs = plan_pairs(self.data, stated, seed, self._progress)
            section, self.lines = pairs.section, pairs.lines
            choice = choose_translator(pairs.statistics, self.minutes, measure_flops())
        else:
            captions = load_captions(self.data, images=_path(stated.get("images")))
            count = len(captions.images["train"])
            self.lines = [f"data: {self.data}: {captions.image_stats.describe()}"]
            choice = choose_captioner(count, self.minutes)
        recipe = self._build(choice, section)
        self._describe_held_out(recipe)
        self.lines.append(f"model: {choice.name}: {choice.reason}")
        self._describe_schedule(recipe)
        return recipe

    def _choose_classifier(self) -> Recipe:
        seed = int(self.stated.get("seed", 0))
        data = plan_labeled_data(self.data, _section(self.stated, "data"), seed, self._progress)
        self.lines = data.lines
        # All training rows are trained on: the candidates have been compared already.
        section = {**data.section, "validation": 0.0}
        choices = choose_classifiers(data.statistics, self.minutes)
        recipes = [self._build(choice, section) for choice in choices]
        if "model" in self.stated or len(choices) == 1:
            best = 0
            stated = _section(self.stated, "model").get("kind")
            given = f"{stated or choices[0].name}, as given" if stated else choices[0].name
            few = f": fewer than {MIN_ROWS_TO_COMPARE} rows are too few to compare others"
            is_small = data.statistics.rows < MIN_ROWS_TO_COMPARE and not stated
            self.lines.append(f"model: {given}{few if is_small else ''}")
        else:
            best = self._compare(choices, recipes, data)
        recipe = self._build(choices[best], section)  # with the time that is left now
        self._describe_schedule(recipe)
        return recipe

    def _compare(
        self, choices: Sequence[Choice], recipes: Sequence[Recipe], data: LabeledData
    ) -> int:
        """Return the index of the classifier with the highest accuracy on held-out rows."""
        rest, held = hold_out(
            _sample_examples(data.splits.train),
            VALIDATION_FRACTION,
            seed=1,
            by_label=not data.section.get("multi_label"),
        )
        splits = Splits(data.splits.name, tuple(rest), tuple(held), ())
        results: list[Validation] = []
        for recipe in recipes:
            assert isinstance(recipe, ClassificationRecipe)
            results.append(validate_classifier(recipe, splits))
            if self.elapsed_minutes > COMPARE_FRACTION * self.minutes:
                break
        best = max(range(len(results)), key=results.__getitem__)
        scores = ", ".join(
            f"{choice.name} {result.accuracy:.1%}"
            for choice, result in zip(choices, results, strict=False)
        )
        # A busy machine may have spent the time on the comparison: a model that is hardly trained
        # would be worse than one that is late.
        needed = results[best].minutes * len(data.splits.train) / max(len(rest), 1)
        self._min_minutes = min(needed, self.minutes)
        self.lines.append(
            f"model: {choices[best].name}: the best on {len(held):,} held-out rows ({scores})"
        )
        return best

    def _choose_finetuning(self, pretrained: PretrainedModel) -> Recipe:
        """Choose the data and the schedule of a trained model."""
        stated, seed = _section(self.stated, "data"), int(self.stated.get("seed", 0))
        check_can_learn(self.task, pretrained)
        parent = pretrained.task.recipe
        section = to_table(parent.data) if parent.task == self.task else {}
        per_character = 1.0 if parent.tokenizer.kind == "characters" else 0.25
        if self.task == "classify":
            labeled = plan_labeled_data(self.data, stated, seed, self._progress)
            examples, statistics = labeled.statistics.rows, labeled.statistics
            length = _longest_text(parent)
            tokens = examples * min(statistics.mean_characters * per_character, length)
            section = {**labeled.section, "max_length": length}
            self.lines = labeled.lines
        elif isinstance(parent, LanguageRecipe):
            corpus = plan_corpus(self.data, stated, self._progress)
            tokens = corpus.statistics.characters * per_character
            examples = round(tokens / parent.data.context_length)
            section, self.lines = section | corpus.section, corpus.lines
        elif self.task == "translate":
            pairs = plan_pairs(self.data, stated, seed, self._progress)
            examples, tokens = pairs.statistics.pairs, pairs.statistics.pairs * 1.5
            tokens *= pairs.statistics.mean_words
            section, self.lines = section | pairs.section, pairs.lines
        else:
            captions = load_captions(self.data, images=_path(stated.get("images")))
            examples = len(captions.images["train"])
            tokens = examples * IMAGE_TOKENS
            section |= {"set": self.data}
            self.lines = [f"data: {self.data}: {captions.image_stats.describe()}"]
        size = _measure_size(pretrained.task)
        choice = choose_finetuning(self.task, size, examples, tokens, self.minutes, measure_flops())
        if self.task == "language":
            steps = math.ceil(examples / choice.table["train"]["batch_size"])
            section["eval_every"] = max(steps, 1)
        if parent.task == self.task and isinstance(parent, TranslationRecipe | CaptionRecipe):
            choice.table["search"] = to_table(parent.search)
        recipe = adapt_recipe(self._build(choice, section), pretrained)
        self._describe_held_out(recipe)
        self.lines.append(f"model: {pretrained.name}, {choice.name}: {choice.reason}")
        self._describe_schedule(recipe)
        return recipe

    def _build(self, choice: Choice, section: Table) -> Recipe:
        """Build the recipe of a choice, with what the user has stated."""
        table: Table = {"task": self.task, "title": Path(self.data).stem, **choice.table}
        table["data"] = {**_section(table, "data"), **section}
        left = self.minutes_left()
        table["train"] = {**_section(table, "train"), "minutes": left}
        kind = _section(self.stated, "model").get("kind")
        if self.pretrained is not None:
            table["start_from"] = self.pretrained.name
        elif kind is not None and kind != table["model"]["kind"]:
            table |= {"model": {}, "tokenizer": {}, "train": {"minutes": left}}
            if kind == "tf-idf":
                table["tokenizer"] = {"kind": "characters"}
            table["data"].pop("max_length", None)
        for name, value in self.stated.items():
            stated = {**table.get(name, {}), **value} if isinstance(value, dict) else value
            table[name] = stated
        return build_recipe(table)

    def _describe_held_out(self, recipe: Recipe) -> None:
        if isinstance(recipe, LanguageRecipe):
            self.lines[-1] += f"; the last {recipe.data.validation:.2%} are to validate on"

    def _describe_schedule(self, recipe: Recipe) -> None:
        unit = "steps" if self.task == "language" else "examples"
        if self.task == "translate":
            unit = "tokens"
        epochs, size = recipe.train.epochs, recipe.train.batch_size
        windows = "windows" if self.task == "language" else unit
        self.lines.append(
            f"schedule: {epochs} epoch{'s' * (epochs > 1)} in batches of {size:,} {windows}, "
            f"{recipe.train.optimizer} at {recipe.train.learning_rate:g}, at most "
            f"{recipe.train.minutes:g} of {self.minutes:g} minutes"
        )


def train_own_data(
    task: str,
    data: str | Path,
    folder: str | Path,
    *,
    minutes: float = DEFAULT_MINUTES,
    stated: Mapping[str, Any] | None = None,
    pretrained: PretrainedModel | None = None,
    mode: LogMode = "progress",
    trackers: Sequence[str] = (),
    prepare: Callable[[Task], None] | None = None,
    describe_exports: Callable[[Recipe], str] | None = None,
) -> Task:
    """Choose a recipe for a file, a folder or a named dataset, and train it into a folder.

    The lines that say what was chosen, the baselines and the suggestions are printed, and written
    to choices.json. `stated` are sections of a recipe that are given, such as
    `{"data": {"text": "review"}}`. A `pretrained` model is trained further.
    `describe_exports` says which formats a recipe's model has.
    """
    folder = Path(folder)
    if folder.exists() and any(not p.name.startswith(".") for p in folder.iterdir()):
        raise UserError(f"{folder} is not empty: use `workings resume {folder}`, or another --out")
    settle_threads()
    with show_data_progress(mode) as progress:
        plan = Plan(task, str(data), minutes, stated, pretrained, progress)
    _print_lines(plan.lines, mode)
    if describe_exports is not None and (exports := describe_exports(plan.recipe)):
        _print_lines([f"export: {exports}"], mode)

    def limit_minutes(task: Task) -> None:
        """Subtract the time in which the data were read and encoded."""
        if "minutes" not in _section(plan.stated, "train"):
            task.recipe = change_section(task.recipe, "train", minutes=plan.minutes_left())
        if prepare is not None:
            prepare(task)

    clock = Clock()
    trained = train_recipe(
        plan.recipe,
        folder,
        mode=mode,
        pretrained=pretrained,
        prepare=limit_minutes,
        trackers=trackers,
    )
    baselines = trained.score_baselines()
    result = read_json(folder / "result.json")
    comparison = compare_with_baselines(trained.baseline_metric, result, baselines)
    suggestions = suggest_next(trained, result, baselines, folder)
    if not torch.cuda.is_available() and (busy := describe_busy(*clock.read())):
        suggestions.insert(0, busy)
    write_json(
        folder / "choices.json",
        {
            "minutes": minutes,
            "lines": plan.lines,
            "baselines": {"metric": trained.baseline_metric, **baselines},
            "suggestions": suggestions,
        },
    )
    _print_lines([*comparison, *suggestions], mode)
    return trained


class Clock:
    """The seconds since it was made: of this program on all processors, and of the wall."""

    def __init__(self) -> None:
        self._start = time.process_time(), time.monotonic()

    def read(self) -> tuple[float, float]:
        """Return both."""
        return time.process_time() - self._start[0], time.monotonic() - self._start[1]


def describe_busy(processor_seconds: float, seconds: float) -> str:
    """Return a line about a machine that was busy with other programs, or "".

    >>> describe_busy(12.0, 90.0)
    'busy: other programs left this one 12 of 90 seconds: the result would be better without them'
    >>> describe_busy(80.0, 90.0)
    ''
    """
    if seconds < BUSY_SECONDS or processor_seconds >= BUSY_SHARE * seconds:
        return ""
    return (
        f"busy: other programs left this one {processor_seconds:.0f} of {seconds:.0f} seconds: "
        "the result would be better without them"
    )


class Validation(NamedTuple):
    """How good a classifier is on validation data, the better the greater, and its training time.

    Accuracy and loss are those of the last epoch: the best one would favor many epochs.
    """

    accuracy: float
    negative_loss: float
    minutes: float


def validate_classifier(recipe: ClassificationRecipe, splits: Splits) -> Validation:
    """Train a classifier in a temporary folder, and validate it."""
    task = Classification.from_recipe(recipe, splits=splits)
    with TemporaryDirectory(prefix="workings-") as name, init_process_group() as group:
        group.select_device(recipe.train.device)
        log = Log(Path(name) / "log.jsonl", "quiet", batch_unit=task.batch_unit)
        start = time.monotonic()
        try:
            Trainer(task, recipe.train, Path(name), log, recipe.seed, group).train()
        finally:
            log.close()
        minutes = (time.monotonic() - start) / 60
        last = read_epochs(Path(name) / "log.jsonl")[-1]
    accuracy, loss = (last.get(f"validation_{key}", 0.0) for key in ("accuracy", "loss"))
    return Validation(accuracy, -loss, minutes)


def _sample_examples(examples: Sequence[Example]) -> Sequence[Example]:
    """Return every n-th example, so that they have at most `MAX_COMPARE_CHARACTERS`."""
    characters = sum(len(example.text) for example in examples)
    return examples[:: max(-(-characters // MAX_COMPARE_CHARACTERS), 1)]


def settle_threads() -> None:
    """Use one thread if that is faster: where other programs run, threads wait for each other."""
    count = torch.get_num_threads()
    if count == 1:
        return
    flops = measure_flops()
    torch.set_num_threads(1)
    if measure_flops() < flops:
        torch.set_num_threads(count)


def measure_flops() -> float:
    """Measure how many floating-point operations per second a training of this size does.

    Small matrices and everything around them reach a third of the speed of a large product. It is
    measured long enough to feel other programs, which take turns with this one.
    """
    a, b = torch.randn(512, 256), torch.randn(256, 256)
    for _ in range(3):
        a @ b
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < FLOPS_SECONDS:
        a @ b
        count += 1
    return 2 * 512 * 256 * 256 * count / (time.perf_counter() - start) / 3


def compare_with_baselines(
    metric: str, result: Mapping[str, Any], baselines: Mapping[str, float]
) -> list[str]:
    """Return a line with a result and its baselines."""
    if metric not in result or not baselines:
        return []
    percent = metric.endswith("accuracy")
    values = {metric.replace("_", " "): float(result[metric]), **baselines}
    parts = [f"{n} {v:.1%}" if percent else f"{n} {v:.2f}" for n, v in values.items()]
    return ["result: " + " · ".join(parts)]


def suggest_next(
    task: Task, result: Mapping[str, Any], baselines: Mapping[str, float], folder: Path
) -> list[str]:
    """Return lines with commands to look at the run, and what may improve it."""
    lines = [f"look: workings serve {folder}, or open {folder / 'report.html'}"]
    if isinstance(task, Classification):
        lines[0] = f'look: workings predict {folder} "a text", workings explain {folder} "a text"'
        lines.append(f"next: {_suggest_for_classifier(task, result, baselines)}")
    elif task.verb == "complete":
        lines[0] = f'look: workings complete {folder} "a beginning"'
        lines.append(_compare_generator(task, result, baselines, better=min))
        lines[-1] += "more time allows a larger model: --minutes 30"
    elif task.verb == "translate":
        lines[0] = f'look: workings translate {folder} "a sentence"'
        lines.append(_compare_generator(task, result, baselines, better=max))
        lines[-1] += "more pairs, and more time: --minutes 30"
    lines.append(f"recipe: {folder / 'config.toml'}: copy it to change it")
    return lines


def _suggest_for_classifier(
    task: Classification, result: Mapping[str, Any], baselines: Mapping[str, float]
) -> str:
    """Return what may improve a classifier, which depends on how far it is above the baselines."""
    accuracy, rows = result.get("test_accuracy", 0.0), result.get("test_examples", 0)
    if not baselines or not rows:
        return "more rows: none were left to test on"
    if accuracy < baselines["majority class"] + 0.02:
        return (
            "hardly better than always predicting the most frequent label: check the columns with "
            "--data.text NAME --data.label NAME"
        )
    name, best = max(baselines.items(), key=lambda item: item[1])
    if accuracy < best:
        # Two standard errors of a difference, as if the two were wrong on different rows.
        noise = 2 * math.sqrt((accuracy * (1 - accuracy) + best * (1 - best)) / rows)
        if best - accuracy > noise:
            other = (
                "a new model, without --from" if task.recipe.start_from else "--model.kind ngrams"
            )
            return f"{name} is better by {best - accuracy:.1%}: try {other}"
        return (
            f"{name} is ahead by {best - accuracy:.1%}, within the noise of {rows:,} test rows "
            f"(±{noise:.1%}): more labeled rows help most"
        )
    if task.data_info["train"] < 1000 or task.recipe.start_from:
        return "more labeled rows help most"
    if task.data_info["train"] < MIN_ROWS_FOR_NETWORKS:
        return (
            "more labeled rows, or a pretrained model that you have downloaded: workings train "
            "--from FOLDER --task classify --data FILE"
        )
    return "a neural network: --model.kind transformer --minutes 20"


def _compare_generator(
    task: Task,
    result: Mapping[str, Any],
    baselines: Mapping[str, float],
    better: Callable[[float, float], float],
) -> str:
    """Return the beginning of a suggestion, which names a baseline that is not beaten."""
    score = result.get(task.baseline_metric)
    for name, baseline in baselines.items():
        if score is not None and better(score, baseline) == baseline:
            return f"next: not better than {name}: "
    return "next: "


def _longest_text(parent: Recipe) -> int:
    """Return how many tokens of a text a classifier that is made of a trained model can read."""
    if isinstance(parent, ClassificationRecipe):
        return parent.data.max_length
    settings = parent.model.full_table()
    is_limited = settings.get("positions") == "learned"
    return int(settings["max_positions"]) if is_limited else MAX_TEXT_TOKENS


def _measure_size(task: Task) -> TrainedSize:
    tables = task.token_tables().keys() if isinstance(task, Classification) else ()
    weights = sum(p.numel() for name, p in task.model.named_parameters() if name not in tables)
    return TrainedSize(int(task.recipe.model.full_table().get("d_model", 128)), weights)


def _path(name: str | None) -> Path | None:
    return Path(name) if name else None


def _section(table: Mapping[str, Any], name: str) -> Table:
    section = table.get(name, {})
    return dict(section) if isinstance(section, Mapping) else {}


def _print_lines(lines: Sequence[str], mode: LogMode) -> None:
    if mode == "progress":
        sys.stderr.write("".join(f"{escape_control(line)}\n" for line in lines))
