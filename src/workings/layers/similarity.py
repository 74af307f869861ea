"""Similarities with weights of their own, for `attend(…, similarity=…)`.

The notes' ladder: an MLP compares one query with each state (`Additive`); an inner product is
cheaper (`attention.dot`), over √d it trains at any width (`attention.scaled_dot`, what `attend` does
by itself); a matrix between the two lets their spaces differ (`General`).
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Additive(nn.Module):
    """Compare by a small MLP: `vᵀ tanh(W_q q + W_k k)`."""

    def __init__(self, query_width: int, key_width: int, hidden: int) -> None:
        super().__init__()
        self.query = nn.Linear(query_width, hidden, bias=False)
        self.key = nn.Linear(key_width, hidden, bias=False)
        self.score = nn.Linear(hidden, 1, bias=False)

    def forward(
        self, query: Float[Tensor, "*q queries d_q"], key: Float[Tensor, "*k keys d_k"]
    ) -> Float[Tensor, "... queries keys"]:
        """Score every pair; the hidden layer of a pair is `[…, queries, keys, hidden]`."""
        hidden = torch.tanh(self.query(query).unsqueeze(-2) + self.key(key).unsqueeze(-3))
        scores: Tensor = self.score(hidden)
        return scores.squeeze(-1)


class General(nn.Module):
    """Compare through a matrix: `qᵀ W k`."""

    def __init__(self, query_width: int, key_width: int) -> None:
        super().__init__()
        self.bridge = nn.Linear(query_width, key_width, bias=False)

    def forward(
        self, query: Float[Tensor, "*q queries d_q"], key: Float[Tensor, "*k keys d_k"]
    ) -> Float[Tensor, "... queries keys"]:
        """Take the queries across to the keys' space, then the inner product."""
        crossed: Tensor = self.bridge(query)
        return crossed @ key.transpose(-2, -1)
