"""`render.text`, `html`, `latex`, `svg` and `picture`: every result, every format that it has."""

import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from workings import Problem, UserError, render
from workings.display import Renderable
from workings.experiments.base import Finding
from workings.interpret.results import (
    AttentionMaps,
    Attribution,
    CaptionAttention,
    Excerpt,
    GradientNorms,
    GradientReport,
    HeadMap,
    NeuronScore,
    NeuronSearch,
    PropertyNeurons,
    SpectralRadius,
    TokenAttributions,
    TranslatorComparison,
    TranslatorScores,
)
from workings.metrics.bleu import BLEUResult, ChrFResult, CorpusScores
from workings.metrics.bootstrap import Comparison, Estimate
from workings.metrics.by_length import LengthBucket
from workings.problems.derivation import derive
from workings.render.pictures import Picture


def make_attention_maps() -> AttentionMaps:
    return AttentionMaps("a b", ["a", "b"], ["a", "b"], [HeadMap("head 1", [[1, 0], [0.5, 0.5]])])


def make_attribution() -> Attribution:
    values = TokenAttributions("occlusion", [0.5], "the drop of the score")
    return Attribution(
        "good", [(0, 4)], [], 0, "pos", "neg", 1.0, {"pos": 0.7, "neg": 0.3}, [values]
    )


def make_caption_attention() -> CaptionAttention:
    weights = np.array([[[1.0, 0.0], [0.0, 0.0]]])
    return CaptionAttention(np.zeros((4, 4, 3), np.uint8), ["dog"], weights, -1.0, "dog.png")


def make_gradient_report() -> GradientReport:
    norms = GradientNorms("rnn", "h of layer 1", [1.0, 0.5, 0.25])
    return GradientReport([norms], [SpectralRadius("rnn", 1, "W_hh", 0.9)])


def make_neuron_search() -> NeuronSearch:
    neuron = NeuronScore("h1[3]", False, 0.9, 0.8, 0.01, [0.1, 0.9], 0.5, 0.5)
    excerpt = Excerpt("ab", [(0, 1), (1, 2)], [1])
    neurons = PropertyNeurons("quotes", "inside quotes", "AUC", 0.5, 0.6, [neuron], excerpt)
    return NeuronSearch(8, 100, 100, 200, "characters", [neurons], [])


def make_translator_comparison() -> TranslatorComparison:
    estimate = Estimate(1.5, 0.5, 2.5)
    against = Comparison(estimate, estimate, estimate, 0.0, 1000, 1, "sig")
    bleu = BLEUResult(30.0, (50.0, 40.0, 30.0, 20.0), 1.0, 10, 10, "BLEU sig")
    scores = CorpusScores(bleu, ChrFResult(50.0, "chrF sig"))
    buckets = [LengthBucket(1, 5, 3.0, 20, 31.0), LengthBucket(6, 6, 6.0, 10, 25.0)]
    return TranslatorComparison(
        "pairs",
        30,
        [
            TranslatorScores("first", scores, buckets, None),
            TranslatorScores("second", scores, buckets, against, training_overlap=3),
        ],
    )


def make_finding() -> Finding:
    figure = Picture(100, 100, "figure")
    return Finding("Why?", ["Because of 2."], "another seed", figure, ("x", "y"), [("1", "2")])


PROBLEM = Problem(X=[[1, 2], [3, 1]], scale="none")
WORKED = {"text", "html", "fragment", "latex", "picture"}
DRAWN = WORKED - {"latex"}
PLAIN = DRAWN - {"picture"}
RESULTS = {
    "solution": (PROBLEM.solve(), WORKED),
    "report": (PROBLEM.check(), WORKED),
    "worked problem": (PROBLEM.solve().to_worked_problem(), WORKED),
    "cell": (derive(PROBLEM, "scores", 1, 1), PLAIN),
    "attention maps": (make_attention_maps(), DRAWN),
    "attribution": (make_attribution(), DRAWN),
    "caption attention": (make_caption_attention(), DRAWN),
    "gradients": (make_gradient_report(), DRAWN),
    "neurons": (make_neuron_search(), DRAWN),
    "translators": (make_translator_comparison(), DRAWN),
    "finding": (make_finding(), DRAWN),
}
RENDER = {
    "text": lambda result: render.text(result, width=80),
    "html": render.html,
    "fragment": lambda result: render.html(result, fragment=True),
    "latex": render.latex,
    "picture": render.svg,
}
METHODS = {
    "text": lambda result: result.text(width=80),
    "html": lambda result: result.html(),
    "fragment": lambda result: result._repr_html_(),
    "latex": lambda result: result.latex(),
    "picture": lambda result: result.svg(),
}


@pytest.mark.parametrize("form", RENDER)
@pytest.mark.parametrize("name", RESULTS)
def test_every_result_has_the_formats_it_names(name: str, form: str) -> None:
    result, formats = RESULTS[name]
    assert isinstance(result, Renderable)
    if form in formats:
        rendered = RENDER[form](result)
        assert rendered == METHODS[form](result)
        if form in ("html", "picture"):
            assert rendered.startswith("<!doctype html>" if form == "html" else "<svg")
    else:
        kind = type(result).__name__
        with pytest.raises(
            UserError, match=rf"{kind} cannot be rendered as .*: it has text, an HTM"
        ):
            RENDER[form](result)
        with pytest.raises(UserError, match="cannot be rendered as"):
            METHODS[form](result)


def test_an_unknown_class_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"int cannot be rendered: expected one of AttentionMaps, "):
        render.text(3)


def test_a_class_can_be_registered_and_its_subclasses_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @dataclass
    class Answer(Renderable):
        value: int

    class LongAnswer(Answer): ...

    monkeypatch.setattr(render, "_MODULES", dict(render._MODULES))
    monkeypatch.setitem(sys.modules, "answers", module := type(sys)("answers"))
    module.render_text = lambda answer, *, width, color: f"{answer.value} {width} {color}"  # type: ignore[attr-defined]
    render.register(Answer, "answers")
    assert LongAnswer(42).text(width=7, color=True) == "42 7 True"
    with pytest.raises(UserError, match=r"LongAnswer cannot be rendered as LaTeX: it has text$"):
        LongAnswer(42).latex()


def test_results_are_rendered_without_torch() -> None:
    program = """
import sys
sys.modules["torch"] = None
from workings import Problem, render
from workings.interpret.results import AttentionMaps, HeadMap
maps = AttentionMaps("a", ["a"], ["a"], [HeadMap("head 1", [[1.0]])])
for result in (Problem(X=[[1]]).solve(), Problem(X=[[1]]).check(), maps):
    render.text(result), render.html(result), render.svg(result)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
