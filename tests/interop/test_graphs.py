"""torch.export records every model once, for all batch sizes and lengths."""

import pytest
import torch
from graph_checks import CHECKS, run_exported

pytestmark = pytest.mark.usefixtures("without_shape_checks")  # a size may be symbolic
FAST = ("classifier-lstm-max", "classifier-convolution-max", "lm-gru", "translator-rnn-general")


@pytest.mark.parametrize(
    "name",
    [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in CHECKS],
)
def test_exported_program_equals_the_model(name):
    check, table = CHECKS[name]
    with torch.no_grad():
        check(table, run_exported)
