"""One step of a model's beam search as a worked problem.

The hypotheses before the step are the tokens of a small Markov model: it starts with one of them,
and continues with the model's probabilities. So its second step is the model's step; the scores are
relative to the hypotheses, which changes no comparison.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workings.decode import find_candidates
from workings.errors import UserError
from workings.interpret.model_pass import DecodingInput, ModelPass
from workings.interpret.model_problem import Matrix, ModelProblem, build_problem
from workings.modules import eval_mode

MAX_BEAMS = 8
MAX_STEPS = 200
_MAX_TOKENS = 500  # of the problem
_OTHER = "(other)"


@dataclass(frozen=True)
class BeamStep:
    """The hypotheses before a step, the probabilities of the next token, and the model's choice."""

    prefixes: Sequence[Sequence[int]]
    totals: NDArray[np.float64]  # log probabilities of the hypotheses
    log_probabilities: NDArray[np.float64]  # [hypotheses, vocabulary]
    chosen: Sequence[tuple[int, int, float]]  # hypothesis, token, log probability


@torch.no_grad()
def trace_beam_step(decoding: DecodingInput, step: int, beams: int) -> BeamStep:
    """Search up to a step, counted from 1; hypotheses that have ended are set aside."""
    logits, state = decoding.model.start(decoding.source)
    totals = logits.new_zeros(1, 1)
    prefixes: list[list[int]] = [[]]
    for _ in range(1, step):
        rows, tokens, values = find_candidates(logits, totals, 2 * beams)
        if decoding.stop is not None:
            values = values.masked_fill(tokens == decoding.stop, -torch.inf)
        totals, order = values.topk(min(beams, values.shape[1]))
        if not totals.isfinite().all():
            raise UserError(f"step {step}: fewer than {beams} hypotheses go on so far")
        rows, tokens = rows.gather(1, order)[0], tokens.gather(1, order)[0]
        prefixes = [
            [*prefixes[row], token]
            for row, token in zip(rows.tolist(), tokens.tolist(), strict=True)
        ]
        logits, state = decoding.model.step(tokens, state.select(rows))
    rows, tokens, values = find_candidates(logits, totals, beams)
    chosen = zip(rows[0].tolist(), tokens[0].tolist(), values[0].tolist(), strict=True)
    exact = torch.log_softmax(logits.double(), -1)
    return BeamStep(prefixes, _to_array(totals[0]), _to_array(exact), list(chosen))


def _to_array(tensor: Tensor) -> NDArray[np.float64]:
    array: NDArray[np.float64] = tensor.double().cpu().numpy()
    return array


def work_beam_step(model_pass: ModelPass, step: int, beams: int) -> ModelProblem:
    """Return one step of the beam search that continues a text, or translates it."""
    if model_pass.decoding is None:
        raise UserError("a classifier generates no text: expected a language model or translator")
    if beams > MAX_BEAMS or step > MAX_STEPS:
        raise UserError(f"at most {MAX_BEAMS} beams and {MAX_STEPS} steps")
    decoding = model_pass.decoding
    with eval_mode(model_pass.model):
        beam_step = trace_beam_step(decoding, step, beams)
    tokens = _select_tokens(beam_step)
    names = _name_tokens(decoding, beam_step, tokens)
    hypotheses = len(beam_step.prefixes)
    probabilities = np.exp(beam_step.log_probabilities)
    next_tokens = np.concatenate(
        [probabilities[:, tokens], 1 - probabilities[:, tokens].sum(1, keepdims=True)], axis=1
    ).clip(0)
    count = hypotheses + next_tokens.shape[1]
    transitions = np.eye(count)
    transitions[:hypotheses] = 0
    transitions[:hypotheses, hypotheses:] = next_tokens
    start = np.zeros((1, count))
    relative = np.exp(beam_step.totals - beam_step.totals.max())
    start[0, :hypotheses] = relative / relative.sum()
    log_sum = float(beam_step.totals.max() + np.log(relative.sum()))
    settings = {
        "title": f"Beam search, step {step}: {model_pass.text}",
        "vectors": "rows",
        "kind": "beam_search",
        "tokens": names,
        "beams": beams,
        "length": 2,
    }
    given: dict[str, Matrix] = {"P": transitions, "start": start}
    model_steps = {
        "totals.2": np.array([[value - log_sum] for _, _, value in beam_step.chosen]),
        "beams.2": np.array(
            [[row + 1, hypotheses + tokens.index(token) + 1] for row, token, _ in beam_step.chosen],
            dtype=np.float64,
        ),
    }
    best = " | ".join(
        f"{names[row]} + {names[hypotheses + tokens.index(token)]}: {value:.4f}"
        for row, token, value in beam_step.chosen
    )
    note = (
        f"Scores are relative to the hypotheses: the model's log probabilities are"
        f" {abs(log_sum):.4f} {'less' if log_sum < 0 else 'more'}. The model keeps {best}."
    )
    return ModelProblem(build_problem(settings, given), settings, given, model_steps, note)


def _select_tokens(beam_step: BeamStep) -> list[int]:
    """Return the likeliest tokens, until all others together cannot be among the best."""
    worst = min(value for _, _, value in beam_step.chosen)
    scores = beam_step.totals[:, None] + beam_step.log_probabilities
    order = np.argsort(-scores.max(0), kind="stable")
    count = len(beam_step.chosen)
    while count < min(len(order), _MAX_TOKENS):
        others = np.exp(scores[:, order[count:]]).sum(1)
        if others.max(initial=0.0) < np.exp(worst):
            break
        count += 1
    else:
        if count < len(order):
            raise UserError(
                f"more than {_MAX_TOKENS} tokens are likely: expected a step with fewer"
            )
    return [int(token) for token in order[:count]]


def _name_tokens(decoding: DecodingInput, beam_step: BeamStep, tokens: Sequence[int]) -> list[str]:
    """Return distinct names: the texts of the hypotheses, of the tokens, and of all others."""
    hypotheses = ["…" + "".join(map(decoding.name_token, prefix)) for prefix in beam_step.prefixes]
    names = [*hypotheses, *map(decoding.name_token, tokens), _OTHER]
    return [
        name if names.index(name) == k and name else f"{name}#{k + 1}"
        for k, name in enumerate(names)
    ]
