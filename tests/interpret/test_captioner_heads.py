"""A captioner's heads as problems: against the formula in NumPy, as those of other models."""

import numpy as np
import pytest
import torch
from heads_by_hand import agrees, by_hand, inputs, shaken

from workings.config import build
from workings.data import WordTokenizer
from workings.errors import UserError
from workings.interpret.attention import collect_stacks
from workings.interpret.heads import read_head
from workings.models.captioning import build_captioner
from workings.models.classifiers import build_classifier
from workings.models.seq2seq import START
from workings.recipes import CaptionRecipe, ClassificationRecipe
from workings.tasks.captioning import Captioning, collate_pictures
from workings.tasks.classification import Classification


def captioner(kind="transformer"):
    table = {"kind": kind, "channels": [4, 8], "d_model": 12, "layers": 2}
    table |= {"heads": 3, "d_ff": 16} if kind == "transformer" else {"hidden_size": 16}
    recipe = build(CaptionRecipe, {"task": "caption", "model": table, "data": {"image_size": 16}})
    words = WordTokenizer(["a", "red", "square"], with_eos=True)
    torch.manual_seed(0)
    return Captioning(recipe, words, shaken(build_captioner(table, len(words))).eval())


@pytest.mark.parametrize("part", ["cross", "decoder"])
def test_captioners(part):
    task, said = captioner(), "a red square"
    picture = np.random.default_rng(1).integers(0, 256, (16, 16, 3), np.uint8)
    about = collate_pictures([picture], task.model)
    ids = torch.tensor([[START, *task.tokenizer.encode(said)]])
    path = f"decoder.1.{'cross_attention' if part == 'cross' else 'attention'}"
    given = inputs(task, path, lambda task: task.model.forward_features(about, ids))
    layer = task.model.get_submodule(path)
    (stack,) = (one for one in collect_stacks(task, picture, said) if one.part == part)
    for head in (1, 2, 3):
        expected = by_hand(layer, head, *given, causal=part == "decoder")
        agrees(read_head(task, picture, 2, head, part=part, target=said), expected)
        np.testing.assert_allclose(stack.weights[1][head - 1], expected["weights"], atol=1e-5)
    assert list(stack.query_tokens) == ["<s>", "a", "red", "square"]
    if part == "cross":
        assert list(stack.key_tokens[:2]) == ["(1,1)", "(1,2)"]
        assert len(stack.key_tokens) == len(given[1])


def test_captioners_that_have_no_heads():
    picture = np.zeros((16, 16, 3), np.uint8)
    assert collect_stacks(captioner("recurrent"), picture, "a") == []
    with pytest.raises(UserError, match="its kind is not transformer"):
        read_head(captioner("recurrent"), picture, 1, 1)
    with pytest.raises(UserError, match="looks at pictures"):
        read_head(captioner(), "a red square", 1, 1)


def test_what_is_no_picture_and_what_is_too_large():
    table = {"kind": "transformer", "d_model": 8, "heads": 2, "layers": 1}
    words = WordTokenizer(["a", "red"])
    recipe = build(ClassificationRecipe, {"model": table})
    reads = Classification(recipe, words, ("a", "b"), build_classifier(table, len(words), 2))
    picture = np.zeros((96, 96, 3), np.uint8)
    for ask in (lambda: read_head(reads, picture, 1, 1), lambda: collect_stacks(reads, picture)):
        with pytest.raises(UserError, match="a picture is for a captioner"):
            ask()
    with pytest.raises(UserError, match="576 places of a grid: a head is written out for 512"):
        collect_stacks(captioner(), picture, "a")
