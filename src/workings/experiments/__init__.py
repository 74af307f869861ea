"""Questions about sequence models, each answered by a small experiment.

A question is a module here with `measure(seed) -> figures`, which a test holds to the effect, and
`answer(seed) -> Finding`, which puts the figures into words and a picture. Nothing here imports
torch before a question is asked.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from workings.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from workings.experiments.finding import Finding

QUESTIONS = {
    "core": "What is the core of self-attention?",
    "scale": "Why are scores divided by √d_k?",
    "positions": "Why positional encoding?",
    "qkv": "What are queries, keys and values, and why do they exist?",
    "heads": "Why several heads, and why is each of them narrow?",
    "mask": "How is the future hidden?",
    "gradient": "Why do gradients vanish or explode through time?",
    "bottleneck": "What does one context vector cost?",
    "norm": "Why layer norm, and not batch norm?",
    "forcing": "What does a model miss that is never fed its own mistakes?",
    "parallel": "When is attention faster than a recurrent network?",
    "size": "How does the loss fall with more parameters and more data?",
    "sigmoid": "What if a sigmoid stands in the softmax's place?",
    "shapes": "What goes in, what comes out: one or many?",
}


def ask(name: str, seed: int = 1) -> "Finding":
    """Run the experiment that answers a question, e.g. `ask("scale")`."""
    if name not in QUESTIONS:
        raise UserError(f"no question {name!r}: {did_you_mean(name, QUESTIONS)}")
    if not 0 <= seed < 2**53:
        raise UserError(f"seed = {seed}: a whole number from 0 to below 2**53")
    answer: Callable[[int], Finding] = import_module(f"workings.experiments.{name}").answer
    return answer(seed)
