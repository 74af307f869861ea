"""Parts of a model as worked problems: each agrees with numpy or torch, and with the model."""

import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_tasks import (
    captioning_task,
    classification_task,
    language_task,
    perturb,
    recurrent_language_task,
    translation_task,
)

from workings.data import CharacterTokenizer
from workings.errors import UserError
from workings.interpret.worked_parts import work_part
from workings.problems import Problem

TEXT = "to be or not"
WORDS = ["a", "good", "film", "bad"]


def character_task(**table):
    return language_task(CharacterTokenizer.train([TEXT]), activation="relu", **table)


def recurrent_task(**table):
    task = recurrent_language_task(TEXT, **table)
    perturb(task.model)
    return task


TASKS = {
    "language": lambda: (character_task(), TEXT),
    "gelu": lambda: (language_task(CharacterTokenizer.train([TEXT]), activation="gelu"), TEXT),
    "classification": lambda: (classification_task(WORDS), "a good film"),
    "translation": lambda: (translation_task(WORDS), "a good film"),
}


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("at", ["neuron,2,3,2", "neuron,1,1", "norm,1", "norm,3,1"])
def test_part_agrees_with_the_model(name: str, at: str) -> None:
    task, text = TASKS[name]()
    part = work_part(task, text, at)
    differences = part.max_differences()
    assert len(differences) >= 2
    assert max(differences.values()) < 2e-6
    assert Problem.from_toml(part.to_file()).check().verdict == "right"


def test_neuron_is_a_dot_product_and_its_output_a_share_of_the_layer() -> None:
    task = character_task()
    block = task.model.blocks[1].feed_forward
    inputs = []
    handle = block.register_forward_hook(lambda _m, args, out: inputs.append((args[0], out)))
    with torch.no_grad():
        task.model.eval()(torch.tensor([task.tokenizer.encode(TEXT)]))
    handle.remove()
    x, output = (tensor[0, 4].double().numpy() for tensor in inputs[0])
    total = block.outer.bias.detach().double().numpy()
    for unit in range(1, block.inner.out_features + 1):
        solution = work_part(task, TEXT, f"neuron,2,{unit},5").problem.solve()
        weight, bias = block.inner.weight[unit - 1], block.inner.bias[unit - 1]
        hidden = x @ weight.detach().double().numpy() + float(bias.detach())
        assert solution["activated"][0, 0] == pytest.approx(max(hidden, 0), abs=1e-9)
        total = total + solution["output"][0]
    np.testing.assert_allclose(total, output, atol=1e-5)


@pytest.mark.parametrize("time", [1, 2, 7])
def test_lstm_cell_is_torchs_cell(time: int) -> None:
    task = recurrent_task()
    part = work_part(task, TEXT, f"cell,1,{time}")
    assert max(part.max_differences().values()) < 1e-6
    layer = task.model.recurrent.layers[0][0].layer
    ids = torch.tensor([task.tokenizer.encode(TEXT)[:time]])
    with torch.no_grad():
        _, (h, c) = layer(task.model.embedding(ids))
    solution = part.problem.solve()
    np.testing.assert_allclose(solution["h", 1], h[0].numpy(), atol=1e-6)
    np.testing.assert_allclose(solution["c", 1], c[0].numpy(), atol=1e-6)
    assert Problem.from_toml(part.to_file()).check().verdict == "right"


@pytest.mark.parametrize("time", [1, 2, 7])
def test_gru_cell_is_torchs_cell(time: int) -> None:
    task = recurrent_task(cell="gru")
    part = work_part(task, TEXT, f"cell,1,{time}")
    assert set(part.max_differences()) == {"z.1", "r.1", "n.1", "h.1"}
    assert max(part.max_differences().values()) < 1e-6
    layer = task.model.recurrent.layers[0][0].layer
    ids = torch.tensor([task.tokenizer.encode(TEXT)[:time]])
    with torch.no_grad():
        _, h = layer(task.model.embedding(ids))
    np.testing.assert_allclose(part.problem.solve()["h", 1], h[0].numpy(), atol=1e-6)
    assert Problem.from_toml(part.to_file()).check().verdict == "right"


def test_neuron_of_a_gated_layer_adds_up_to_its_output() -> None:
    task = language_task(CharacterTokenizer.train([TEXT]), activation="silu", gated=True)
    layer, inputs = task.model.blocks[0].feed_forward, []
    handle = layer.register_forward_hook(lambda _m, args, out: inputs.append((args[0], out)))
    with torch.no_grad():
        task.model.eval()(torch.tensor([task.tokenizer.encode(TEXT)]))
    handle.remove()
    total = np.zeros(inputs[0][1].shape[-1])
    if layer.outer.bias is not None:
        total = total + layer.outer.bias.detach().double().numpy()
    for unit in range(1, layer.inner.out_features + 1):
        part = work_part(task, TEXT, f"neuron,1,{unit},3")
        assert set(part.max_differences()) == {"hidden", "gate", "activated"}
        assert max(part.max_differences().values()) < 1e-6
        total = total + part.problem.solve()["output"][0]
    np.testing.assert_allclose(total, inputs[0][1][0, 2].double().numpy(), atol=1e-5)


@pytest.mark.parametrize("at", ["norm,1", "norm,3,2"])
def test_rms_norm_agrees_with_the_model(at: str) -> None:
    part = work_part(character_task(norm_kind="rms"), TEXT, at)
    assert set(part.max_differences()) == {"mean_square", "normalised", "output"}
    assert max(part.max_differences().values()) < 2e-6
    assert part.problem.kind.name == "rms_norm"


def test_gradient_is_that_of_autograd() -> None:
    task = character_task(tie_embeddings=False)
    part = work_part(task, TEXT, "gradient,head,4,2")
    ids = torch.tensor([task.tokenizer.encode(TEXT)])
    model = task.model.double().eval()
    model.zero_grad()
    F.cross_entropy(model(ids)[0][0, :-1], ids[0, 1:]).backward()
    expected = float(model.head.weight.grad[3, 1])
    assert part.problem.solve()["dW"][0, 0] == pytest.approx(expected, abs=1e-7)
    assert part.max_differences()["dW"] < 1e-7


@pytest.mark.parametrize("path", ["blocks.0.feed_forward.inner", "blocks.1.attention.output"])
def test_gradient_inside_the_model_agrees(path: str) -> None:
    part = work_part(character_task(), TEXT, f"gradient,{path}.weight,2,3")
    assert part.max_differences()["dW"] < 1e-6
    assert part.problem.solve()["dW"][0, 0] != 0


def test_gradient_of_classifier_and_translator() -> None:
    classifier = classification_task(WORDS)
    a, b = (
        work_part(classifier, "a good film", "gradient,head,1,2", target=label)
        for label in classifier.labels
    )
    assert a.problem.solve()["dW"][0, 0] * b.problem.solve()["dW"][0, 0] < 0  # p − y
    at = "gradient,decoder.0.feed_forward.outer,1,2"
    part = work_part(translation_task(WORDS), "a good film", at, target="bad film")
    assert part.max_differences()["dW"] < 1e-6


@pytest.mark.parametrize(("step", "beams"), [(1, 2), (2, 3), (3, 2)])
def test_beam_step_agrees_with_an_exhaustive_search(step: int, beams: int) -> None:
    task = character_task()
    prompt = task.tokenizer.encode(TEXT)
    hypotheses = [((), 0.0)]
    for _ in range(step):
        candidates = []
        for tokens, total in hypotheses:
            ids = torch.tensor([[*prompt, *tokens]])
            with torch.no_grad():
                logits = task.model.eval()(ids)[0][0, -1]
            for token, value in enumerate(torch.log_softmax(logits.double(), -1).tolist()):
                candidates.append(((*tokens, token), total + value))
        hypotheses = sorted(candidates, key=lambda pair: -pair[1])[:beams]
    part = work_part(task, TEXT, f"beam,{step},{beams}")
    totals = part.problem.solve()["totals", 2][:, 0]
    expected = np.array([total for _, total in hypotheses])
    np.testing.assert_allclose(totals - totals[0], expected - expected[0], atol=1e-5)
    assert max(part.max_differences().values()) < 1e-5
    assert Problem.from_toml(part.to_file()).check().verdict == "right"


def test_beam_step_of_a_translator_and_its_limits() -> None:
    task = translation_task(WORDS)
    part = work_part(task, "a good film", "beam,2")
    assert max(part.max_differences().values()) < 1e-5
    with pytest.raises(UserError, match="a classifier generates no text"):
        work_part(classification_task(WORDS), "a film", "beam,1")
    with pytest.raises(UserError, match="at most 8 beams"):
        work_part(task, "a good film", "beam,1,9")


def test_cell_shows_the_largest_terms_and_the_models_number() -> None:
    part = work_part(recurrent_task(), TEXT, "cell,1,3", top=3)
    cell = part.cell("f.1", 1, 2)
    assert [line.name for line in cell.lines][-2:] == ["sum", "sigmoid(sum)"]
    assert cell.lines[-1].numbers[2] == pytest.approx(cell.value)
    assert "the model" in cell.text(width=90)
    assert cell.model_values[0].difference < 1e-6
    assert part.cell("h.1", 1, 2).value == pytest.approx(part.problem.solve()["h", 1][0, 1])


def test_texts_say_both_numbers_and_their_difference() -> None:
    text = " ".join(work_part(character_task(), TEXT, "neuron,1,2").text(width=100).split())
    assert re.search(r"(hidden|activated): \S+ here, \S+ in the model, a difference of", text)


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ("nerve,1,2", "--at 'nerve': expected one of neuron, norm, cell, beam, gradient"),
        ("neuron,1", "--at neuron,1: expected neuron,LAYER,UNIT"),
        ("neuron,1,x", "--at neuron,1,x: expected neuron,LAYER,UNIT"),
        ("neuron,9,1", "feed-forward layer 9: the model has 2: blocks.0.feed_forward"),
        ("neuron,1,999", "neuron 999: there are 64"),
        ("neuron,1,1,99", "token 99: there are 12"),
        ("norm,99", "norm 99: the model has 5"),
        ("cell,1", "this model has no recurrent layer"),
        ("gradient,head", "--at gradient,head: expected gradient,LAYER,ROW,COLUMN"),
        ("gradient,hed,1,1", "--at gradient,hed: no such linear layer: did you mean 'head'"),
        ("gradient,head,1,1", "head shares its weights with embedding"),
        ("gradient,blocks.0.feed_forward.inner,1,99", "column 99: there are 16"),
    ],
)
def test_unknown_parts_are_one_line_errors(at: str, message: str) -> None:
    with pytest.raises(UserError, match=f"^{re.escape(message)}"):
        work_part(character_task(), TEXT, at)


def test_models_without_such_a_part_are_refused() -> None:
    silu = language_task(CharacterTokenizer.train([TEXT]), activation="gelu-tanh")
    with pytest.raises(UserError, match="has the activation gelu-tanh"):
        work_part(silu, TEXT, "neuron,1,1")
    with pytest.raises(UserError, match="reads no text"):
        work_part(captioning_task(), TEXT, "norm,1")
    with pytest.raises(UserError, match="needs at least 2"):
        work_part(character_task(), "t", "norm,1")
    with pytest.raises(UserError, match="--target is for a classifier or translator"):
        work_part(character_task(), TEXT, "norm,1", target="x")
    with pytest.raises(UserError, match="--target c: expected one of a, b"):
        work_part(classification_task(WORDS), "a film", "norm,1", target="c")
