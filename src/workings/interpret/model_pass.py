"""One pass of a trained model over a text: its tokens, its loss, and what its modules compute."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workings.data.tokenizers.base import BOS_TOKEN, EOS_TOKEN, PAD_TOKEN, Tokenizer
from workings.decode import AutoregressiveModel
from workings.errors import UserError, did_you_mean, truncate
from workings.models.seq2seq import START
from workings.modules import eval_mode
from workings.plain_text import show_whitespace
from workings.tasks.base import Task
from workings.tasks.classification import Classification
from workings.tasks.language_modeling import LanguageModeling
from workings.tasks.translation import Translation, collate_sources
from workings.trace import Trace


@dataclass(frozen=True, eq=False)
class ModelPass:
    """A pass of a model over a text; `compute_loss` runs it and returns the mean loss."""

    model: nn.Module
    text: str
    tokens: Sequence[Sequence[str]]  # of the input or, for a translator, of source and target
    compute_loss: Callable[[], Tensor]
    decoding: "DecodingInput | None" = None  # of a model that generates

    def name_positions(self, count: int) -> list[str] | None:
        """Return the tokens at the positions of a module's input, if they are known."""
        return next((list(names) for names in self.tokens if len(names) == count), None)

    def record(self, path: str, *, taps: bool = False, gradients: bool = False) -> "RecordedModule":
        """Run the model; record the input and output of a module and, if asked, its taps.

        With `gradients`, also run the backward pass, and keep the gradient of the output.
        """
        recorded = RecordedModule(Trace(self.model, only=[f"{path}.*"] if taps else []), [], [])

        def keep(_module: nn.Module, inputs: tuple[Tensor, ...], output: object) -> None:
            tensor = output[0] if isinstance(output, tuple) else output
            assert isinstance(tensor, Tensor)
            if gradients:
                tensor.retain_grad()
            recorded.inputs.append(inputs[0].detach())
            recorded.outputs.append(tensor)

        handle = self.model.get_submodule(path).register_forward_hook(keep)
        try:
            with eval_mode(self.model), torch.set_grad_enabled(gradients), recorded.trace:
                loss = self.compute_loss()
                if gradients:
                    self.model.zero_grad()
                    torch.autograd.backward(loss)
        finally:
            handle.remove()
        if not recorded.inputs:
            raise UserError(f"{path}: the model does not use it for this text")
        return recorded


@dataclass(frozen=True, eq=False)
class DecodingInput:
    """What a generating model starts from, its stop token, and the texts of its tokens."""

    model: AutoregressiveModel
    source: Any
    stop: int | None
    name_token: Callable[[int], str]


@dataclass(frozen=True, eq=False)
class RecordedModule:
    """The inputs and outputs of a module, one per call, and its taps."""

    trace: Trace
    inputs: list[Tensor]
    outputs: list[Tensor]


@singledispatch
def plan_pass(task: Task, text: str, target: str | None = None) -> ModelPass:
    """Return a pass over a text; `target` is a label, or the translation of a translator."""
    del text, target
    raise UserError(
        f"a {task.noun} reads no text: expected a classifier, language model or translator"
    )


@plan_pass.register
def _plan_language_model(task: LanguageModeling, text: str, target: str | None = None) -> ModelPass:
    if target is not None:
        raise UserError("--target is for a classifier or translator: a text is its own target")
    ids, spans, _ = task.encode_with_spans(text)
    limit = task.model.max_positions
    if len(ids) < 2 or (limit is not None and len(ids) > limit):
        most = "" if limit is None else f" and at most {limit:,}"
        raise UserError(f"the text has {len(ids):,} tokens: it needs at least 2{most}")
    names = [show_whitespace(name) for name in task.tokenizer.name_spans(text, ids, spans)]
    inputs = torch.tensor([ids], device=task.device)

    def compute_loss() -> Tensor:
        logits, _ = task.model(inputs)
        return F.cross_entropy(logits[0, :-1].float(), inputs[0, 1:])

    decoding = DecodingInput(task.model, inputs, None, _make_token_namer(task.tokenizer))
    return ModelPass(task.model, text, [names], compute_loss, decoding)


def _make_token_namer(tokenizer: Tokenizer) -> Callable[[int], str]:
    return lambda k: show_whitespace(tokenizer.token_to_text(tokenizer.id_to_token(k)))


@plan_pass.register
def _plan_classifier(task: Classification, text: str, target: str | None = None) -> ModelPass:
    ids, spans, _ = task.encode_with_spans(text)
    if not ids:
        raise UserError("the text has no tokens: enter a text")
    if target is not None and target not in task.labels:
        raise UserError(f"--target {truncate(target)}: {did_you_mean(target, task.labels)}")
    label = int(task.predict([text])[0].argmax()) if target is None else task.labels.index(target)

    def compute_loss() -> Tensor:
        logits = task.compute_logits([ids])
        return F.cross_entropy(logits, torch.tensor([label], device=logits.device))

    names = [show_whitespace(text[a:b]) for a, b in spans]
    padded = [PAD_TOKEN] * task.recipe.data.max_length
    if task.padding != "masked":
        padded[task.token_slice(len(names), len(padded))] = names
    return ModelPass(task.model, text, [names, padded], compute_loss)


@plan_pass.register
def _plan_translator(task: Translation, text: str, target: str | None = None) -> ModelPass:
    task.check_single_sentence(text)
    tokenizers = task.tokenizers
    ids = (
        list(task.translate_one(text).tokens)
        if target is None
        else tokenizers.encode_target(target)
    )
    source = collate_sources([tokenizers.encode_source(text)], task.model)
    inputs = torch.tensor([[START, *ids]], device=task.device)
    targets = torch.tensor([[*ids, tokenizers.target.eos_id]], device=task.device)

    def compute_loss() -> Tensor:
        loss: Tensor = task.model(source, inputs, targets) / targets.numel()
        return loss

    pieces = tokenizers.source.split_pieces(tokenizers.normalize_case(text))
    pieces = tokenizers.source.add_prefix_pieces(pieces)
    names = [*tokenizers.source.label_pieces(pieces), EOS_TOKEN]
    outputs = [BOS_TOKEN, *(tokenizers.target.id_to_token(k) for k in ids)]
    target_tokenizer = tokenizers.target
    decoding = DecodingInput(
        task.model, source, target_tokenizer.eos_id, _make_token_namer(target_tokenizer)
    )
    return ModelPass(task.model, text, [names, outputs], compute_loss, decoding)
