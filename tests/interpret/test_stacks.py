"""Heads switched off, held against weights that are nought; and which layers a model has."""

import pytest
import torch

from workings.errors import UserError
from workings.interpret.attention import HeadIndex, ablate_heads, find_attention_layers
from workings.models.classifiers import build_classifier
from workings.models.language import build_language_model
from workings.models.translation import build_translator

TRANSFORMER = {"kind": "transformer", "d_model": 8, "d_ff": 8, "layers": 2, "heads": 2}


@pytest.fixture
def model():
    torch.manual_seed(0)
    return build_language_model(TRANSFORMER, 20).eval()


def test_a_head_that_is_off_is_one_whose_values_lead_nowhere(model):
    ids = torch.randint(20, (1, 7))
    whole, _ = model(ids)
    with ablate_heads(model, [HeadIndex("decoder", 2, 1)]):
        off, _ = model(ids)
    assert not torch.allclose(off, whole)
    with torch.no_grad():
        model.blocks[1].attention.output.weight[:, :4] = 0
    torch.testing.assert_close(off, model(ids)[0])


def test_all_heads_of_a_layer_off_leave_its_bias_alone(model):
    ids = torch.randint(20, (1, 5))
    with ablate_heads(model, [HeadIndex("decoder", k, h) for k in (1, 2) for h in (1, 2)]):
        off, _ = model(ids)
    other = torch.cat((torch.randint(20, (1, 4)), ids[:, -1:]), 1)
    with ablate_heads(model, [HeadIndex("decoder", k, h) for k in (1, 2) for h in (1, 2)]):
        torch.testing.assert_close(model(other)[0][:, -1], off[:, -1])  # nobody looks at anybody


def test_generating_goes_the_same_way(model):
    ids = torch.randint(20, (1, 4))
    with ablate_heads(model, [HeadIndex("decoder", 1, 2)]):
        _, state = model.start(ids[:, :3])
        step, _ = model.step(ids[:, 3], state)
        whole, _ = model(ids)
    torch.testing.assert_close(step, whole[:, -1])


def test_layers_by_part(model):
    assert find_attention_layers(model) == {"decoder": ["blocks.0.attention", "blocks.1.attention"]}
    assert list(find_attention_layers(build_classifier(TRANSFORMER, 20, 3))) == ["encoder"]
    translator = build_translator({**TRANSFORMER, "layers": 1}, 20, 20)
    assert find_attention_layers(translator) == {
        "encoder": ["encoder.0.attention"],
        "decoder": ["decoder.0.attention"],
        "cross": ["decoder.0.cross_attention"],
    }
    assert find_attention_layers(build_language_model({"kind": "recurrent"}, 20)) == {}


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (HeadIndex("cross", 1, 1), "no such heads; it has decoder"),
        (HeadIndex("decoder", 3, 1), "this model has 2"),
        (HeadIndex("decoder", 1, 3), "this model has 2"),
    ],
)
def test_a_head_that_is_not_there_is_told_in_a_line(model, head, said):
    with pytest.raises(UserError, match=said):
        ablate_heads(model, [head])
