"""torch.export records every model once, for all batch sizes and lengths."""

import pytest
import torch
from graph_checks import CHECKS, MODEL_TABLES, run_exported

from workings.errors import UserError
from workings.interop.graphs import build_classifier_graph
from workings.models.classifier_base import TextClassifier
from workings.registry import MODELS

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


def test_every_registered_kind_of_model_is_checked():
    assert {task: set(kinds) for task, kinds in MODELS.items()} == {
        task: {table["kind"] for table in tables.values()} for task, tables in MODEL_TABLES.items()
    }


def test_model_of_a_plugin_is_refused_with_the_reason():
    class Novel(TextClassifier):
        def forward(self, ids, lengths):
            return ids, lengths

    with pytest.raises(UserError, match="a Novel cannot be exported to onnx: it is a model of a"):
        build_classifier_graph(Novel())
