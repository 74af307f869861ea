"""Options of a kind of problem: defaults, bounds, and what is rejected."""

import pytest

from workings.errors import UserError
from workings.problems.options import make_choice, make_count, make_flag, make_number


def test_values_are_parsed() -> None:
    assert make_choice("sgd", "adam").parse("optimizer", "adam") == "adam"
    assert make_count(2).parse("beams", 3) == 3
    assert make_number(0.1).parse("learning_rate", "1/2") == 0.5
    assert make_flag().parse("smoothed", value=True) is True


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        (make_choice("sgd", "adam"), "adma", "did you mean 'adam'"),
        (make_choice("sgd", "adam"), 3, "= 3: expected one of sgd, adam"),
        (make_count(2), True, "whole number from 1 to"),
        (make_count(2, maximum=8), 9, "from 1 to 8"),
        (make_number(0.1, minimum=0), "-1", "at least 0"),
        (make_number(0.1, minimum=0, maximum=1), 2, "from 0 to 1"),
        (make_number(0.1), "-inf", "finite"),
        (make_number(0.1), "?", "finite"),
        (make_flag(), "yes", "true or false"),
    ],
)
def test_other_values_are_rejected(option, value, message) -> None:
    with pytest.raises(UserError, match=message):
        option.parse("key", value)
