"""A toy language model: the next token depends on the two tokens before it."""

import itertools

import torch


class ToyState:
    """The last two tokens of each row."""

    def __init__(self, last):
        self.last = last

    def select(self, rows):
        return ToyState(self.last[rows])


class Toy:
    """Random logits by the last two tokens; a source is the first token of its sequence."""

    def __init__(self, vocabulary=4, seed=0, scale=1.5):
        generator = torch.Generator().manual_seed(seed)
        shape = (vocabulary, vocabulary, vocabulary)
        self.table = scale * torch.randn(shape, generator=generator)
        self.vocabulary = vocabulary

    def start(self, source):
        last = torch.stack((torch.zeros_like(source), source), 1)
        return self.table[last[:, 0], last[:, 1]], ToyState(last)

    def step(self, tokens, state):
        last = torch.stack((state.last[:, 1], tokens), 1)
        return self.table[last[:, 0], last[:, 1]], ToyState(last)

    def log_probability(self, first, tokens):
        before, last, total = 0, first, 0.0
        for token in tokens:
            total += float(torch.log_softmax(self.table[before, last], -1)[token])
            before, last = last, token
        return total

    def all_sequences(self, first, stop, max_length):
        """Yield all sequences up to `max_length`: tokens without stop, length, log probability."""
        others = [t for t in range(self.vocabulary) if t != stop]
        for length in range(1, max_length + 1):
            for body in itertools.product(others, repeat=length - 1):
                tokens = (*body, stop)
                yield body, length, self.log_probability(first, tokens)
        for body in itertools.product(others, repeat=max_length):
            yield body, max_length, self.log_probability(first, body)
