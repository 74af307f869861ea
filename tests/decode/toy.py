"""A language small enough to list: the next token depends on the two before it."""

import itertools

import torch


class Rows:
    """A state: the last two tokens of each row."""

    def __init__(self, last):
        self.last = last

    def select(self, rows):
        return Rows(self.last[rows])


class Toy:
    """Scores of a made-up language; `condition` is the first token of each source."""

    def __init__(self, vocabulary=4, seed=0, sharp=1.5):
        draw = torch.Generator().manual_seed(seed)
        shape = (vocabulary, vocabulary, vocabulary)
        self.table = sharp * torch.randn(shape, generator=draw)
        self.vocabulary = vocabulary

    def start(self, condition):
        last = torch.stack((torch.zeros_like(condition), condition), 1)
        return self.table[last[:, 0], last[:, 1]], Rows(last)

    def step(self, tokens, state):
        last = torch.stack((state.last[:, 1], tokens), 1)
        return self.table[last[:, 0], last[:, 1]], Rows(last)

    def log_probability(self, first, tokens):
        before, last, total = 0, first, 0.0
        for token in tokens:
            total += float(torch.log_softmax(self.table[before, last], -1)[token])
            before, last = last, token
        return total

    def everything(self, first, stop, longest):
        """Every sequence of at most `longest` tokens: (tokens without stop, length, log p)."""
        others = [t for t in range(self.vocabulary) if t != stop]
        for length in range(1, longest + 1):
            for body in itertools.product(others, repeat=length - 1):
                tokens = (*body, stop)
                yield body, length, self.log_probability(first, tokens)
        for body in itertools.product(others, repeat=longest):
            yield body, longest, self.log_probability(first, body)
