"""Similarities with weights of their own, for `attend(…, similarity=…)`.

The notes' ladder: an MLP compares one query with each state (`Additive`); an inner product is
cheaper (`attention.dot`), over √d it trains at any width (`attention.scaled_dot`, what `attend`
does by itself); a matrix between the two lets their spaces differ (`General`).
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from workings.errors import expect_width


class Additive(nn.Module):
    """Compare by a small MLP: `vᵀ tanh(W_q q + W_k k)`.

    >>> from workings import attend
    >>> state, words = torch.zeros(2, 1, 4), torch.ones(2, 5, 3)
    >>> attend(state, words, words, similarity=Additive(4, 3, hidden=8)).shape
    torch.Size([2, 1, 3])
    """

    def __init__(self, query_width: int, key_width: int, hidden: int) -> None:
        super().__init__()
        self.query = nn.Linear(query_width, hidden, bias=False)
        self.key = nn.Linear(key_width, hidden, bias=False)
        self.score = nn.Linear(hidden, 1, bias=False)

    def forward(
        self, query: Float[Tensor, "*q queries d_q"], key: Float[Tensor, "*k keys d_k"]
    ) -> Float[Tensor, "... queries keys"]:
        """Score every pair; the hidden layer of a pair is `[…, queries, keys, hidden]`."""
        return self.compare(query, self.project(key))

    def project(self, key: Float[Tensor, "*k keys d_k"]) -> Float[Tensor, "*k keys hidden"]:
        """What a key is to every query: computed once, where many queries come one by one."""
        expect_width(key.shape[-1], self.key.in_features, "keys")
        projected: Tensor = self.key(key)
        return projected

    def compare(
        self, query: Float[Tensor, "*q queries d_q"], projected: Float[Tensor, "*k keys hidden"]
    ) -> Float[Tensor, "... queries keys"]:
        """Score every pair of a query and a projected key."""
        expect_width(query.shape[-1], self.query.in_features, "queries")
        hidden = torch.tanh(self.query(query).unsqueeze(-2) + projected.unsqueeze(-3))
        scores: Tensor = self.score(hidden)
        return scores.squeeze(-1)


class General(nn.Module):
    """Compare through a matrix: `qᵀ W k`.

    >>> General(4, 3)(torch.zeros(2, 1, 4), torch.ones(2, 5, 3)).shape
    torch.Size([2, 1, 5])
    """

    def __init__(self, query_width: int, key_width: int) -> None:
        super().__init__()
        self.bridge = nn.Linear(query_width, key_width, bias=False)

    def forward(
        self, query: Float[Tensor, "*q queries d_q"], key: Float[Tensor, "*k keys d_k"]
    ) -> Float[Tensor, "... queries keys"]:
        """Take the queries across to the keys' space, then the inner product."""
        expect_width(query.shape[-1], self.bridge.in_features, "queries")
        expect_width(key.shape[-1], self.bridge.out_features, "keys")
        crossed: Tensor = self.bridge(query)
        return crossed @ key.transpose(-2, -1)
