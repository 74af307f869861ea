"""The environment of a run."""

from workings.training.environment import collect_environment, diff_environments


def test_the_same_environment_has_no_differences():
    assert diff_environments(collect_environment(), collect_environment()) == []


def test_differences_are_described():
    before = {"threads": 1, "started": "x", "data": {"train": 3}, "packages": {"torch": "2"}}
    now = {"threads": 2, "started": "y", "data": {"train": 4}, "packages": {}}
    assert diff_environments(before, now) == [
        "threads was 1, is 2",
        "data.train was 3, is 4",
        "torch was 2, is missing",
    ]


def test_packages_that_are_not_a_table_count_as_missing():
    assert diff_environments({"packages": ["torch"]}, {"packages": {"torch": "2"}}) == [
        "torch was missing, is 2"
    ]
