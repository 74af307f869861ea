"""What a checkpoint holds beside the model, and whose it is."""

import pytest
import torch

from workings.distributed import ProcessGroup
from workings.training.checkpoints import flatten_state, select_rank_rows


class Member(ProcessGroup):
    """One of several processes, of which no others exist."""

    def __init__(self, rank, size):
        self.device, self.rank, self.world_size = torch.device("cpu"), rank, size


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("before", [1, 2, 3, 4])
@pytest.mark.parametrize("now", [1, 2, 3, 4])
def test_every_row_goes_on_with_whoever_has_it_now(rows, before, now):
    state = {"h": torch.randn(rows, 5), "c": torch.randn(rows, 2)}

    def held_by(rank, size):
        share = list(Member(rank, size).shard_batch(range(rows)))
        return {name: t[share or [0]] for name, t in state.items()}

    kept = flatten_state({rank: held_by(rank, before) for rank in range(before)})
    for rank in range(now):
        found, expected = select_rank_rows(kept, Member(rank, now), rows), held_by(rank, now)
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_nothing_carried_is_nothing():
    assert select_rank_rows({}, Member(0, 2), 8) == {}


def test_too_few_rows_are_refused():
    kept = flatten_state({0: {"h": torch.randn(1, 5)}, 1: {"h": torch.randn(3, 5)}})
    with pytest.raises(ValueError, match="the state has 1 rows of 4"):
        select_rank_rows(kept, Member(0, 1), 8)


def test_rows_that_are_none_take_no_memory_however_wide():
    with pytest.raises(ValueError, match="the state has 0 rows of 4"):
        select_rank_rows({"0.h": torch.zeros(0, 2**40)}, Member(0, 1), 4)
