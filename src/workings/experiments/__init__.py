"""Questions about sequence models, each answered by a small experiment.

Each question is a module of this package with `measure(seed)`, whose result the tests check, and
`answer(seed) -> Finding`, which turns the measurements into text and a picture. Torch is imported
only when a question is asked.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from workings.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from workings.experiments.base import Finding

QUESTIONS = {
    "core": "What is the core of self-attention?",
    "scale": "Why are scores divided by √d_k?",
    "positions": "Why does attention need positional encodings?",
    "qkv": "What are queries, keys and values, and why do they exist?",
    "heads": "Why several heads, and why is each of them narrow?",
    "mask": "How does a causal mask hide the future?",
    "gradient": "Why do gradients vanish or explode through time?",
    "bottleneck": "What does a single context vector cost?",
    "norm": "Why layer norm, and not batch norm?",
    "forcing": "What does teacher forcing fail to teach?",
    "parallel": "When is attention faster than a recurrent network?",
    "size": "How does the loss fall with more parameters and more data?",
    "pretraining": "What does a language model teach a classifier?",
    "sigmoid": "What if a sigmoid replaces the softmax?",
    "shapes": "Which shapes can a task have: one to many, many to one, many to many?",
}


def ask(name: str, seed: int = 1) -> "Finding":
    """Run the experiment that answers a question, e.g. `ask("scale")`."""
    if name not in QUESTIONS:
        raise UserError(f"no question {name!r}: {did_you_mean(name, QUESTIONS)}")
    if not 0 <= seed < 2**53:
        raise UserError(f"seed = {seed}: expected an integer from 0 to 2**53 - 1")
    answer: Callable[[int], Finding] = import_module(f"workings.experiments.{name}").answer
    return answer(seed)
