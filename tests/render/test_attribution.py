"""Attributions as text and page."""

import base64
import hashlib
import re
from html import unescape

import pytest

from workings.interpret.results import Attribution, TokenAttributions
from workings.render.attribution import render_fragment, render_page, render_text


def make_method(method, values, description="how much it is", **fields):
    return TokenAttributions(method, values, description, **fields)


def make_attribution(**fields):
    methods = [
        make_method("occlusion", [-0.5, 0.001, 2.0]),
        make_method("attention", [0.2, 0.3, 0.5], is_signed=False, layers=[[0.2, 0.3, 0.5]] * 2),
    ]
    defaults = {
        "input_text": "not very good",
        "spans": [(0, 3), (4, 8), (9, 13)],
        "unknown_tokens": [],
        "truncated_characters": 0,
        "label": "pos",
        "runner_up": "neg",
        "margin": 1.0986123,
        "probabilities": {"neg": 0.25, "pos": 0.75},
        "token_attributions": methods,
        "unit": "word",
    }
    return Attribution(**{**defaults, **fields})


HOSTILE = make_attribution(
    input_text="\x1b[2J<b>&\u202e",
    spans=[(0, 4), (4, 9)],
    unknown_tokens=[0, 1],
    label="<script>",
    runner_up='"\x1b[31m',
    probabilities={"<script>": 0.9, '"\x1b[31m': 0.1},
    token_attributions=[make_method("occlusion", [1.0, -1.0], description="<i>\x1b")],
)


@pytest.mark.parametrize("unit", ["word", "character", "token"])
def test_unit_names_the_tokens(unit):
    html = render_page(make_attribution(unit=unit, unknown_tokens=[1]))
    assert f"{unit.capitalize()}s in orange increase it, {unit}s in blue decrease it." in html
    assert f'<span class="unknown">{unit}</span> not in the vocabulary' in html


def test_text_lists_the_strongest_tokens():
    text = render_text(make_attribution(), width=80)
    assert "\x1b" not in text
    assert text.splitlines()[0] == "pos 75.0 % · neg 25.0 %"
    assert "Log-odds of pos against neg: 1.10 (odds of 3.0 to 1)" in text
    assert "for pos  good +2.00\nfor neg  not −0.50" in text  # very would be +0.00
    assert "most  good 0.500 · very 0.300 · not 0.200" in text


def test_colored_text_is_shown_above_the_tokens():
    text = re.sub(r"\x1b\[[\d;]*m", "", render_text(make_attribution(), width=80, color=True))
    assert " not very good \nfor pos" in text
    lines = render_text(
        make_attribution(input_text="good " * 100, token_attributions=[]), width=30, color=True
    ).splitlines()
    assert all(len(re.sub(r"\x1b\[[\d;]*m", "", line)) <= 30 for line in lines)


def test_unread_and_unknown_text_is_reported():
    attribution = make_attribution(
        input_text=f"not very good {'x' * 1234}", truncated_characters=1234, unknown_tokens=[1]
    )
    text = render_text(attribution, width=80, color=True)
    assert "not in the vocabulary: very" in text
    assert "The last 1,234 characters were not read: the model reads 3 tokens." in text
    assert "xxx" not in text
    html = render_page(attribution)
    assert "The last 1,234 characters" in html
    assert "xxx" not in html
    assert '<span class="unknown" title="0">very</span>' in html


def test_tokens_of_one_window_are_joined():
    attribution = make_attribution(
        token_attributions=[make_method("occlusion", [0.5, 0.5, -1.0], window=2)]
    )
    assert "for pos  not very +1.00" in render_text(attribution, width=80)
    assert 'class="p8" title="+1.00">not very</span>' in render_page(attribution)


@pytest.mark.parametrize(("spans", "message"), [([], "o token was read"), ([(0, 3)], "difference")])
def test_attribution_without_differences(spans, message):
    attribution = make_attribution(
        spans=spans, token_attributions=[make_method("gradient", [0.0] * len(spans))]
    )
    for rendered in (
        render_text(attribution, color=True),
        render_page(attribution),
        render_fragment(attribution),
    ):
        assert message in rendered


def test_page_allows_only_its_own_style():
    html = render_page(make_attribution())
    (style,) = re.findall(r"<style>(.*?)</style>", html, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'"
    assert f'http-equiv="Content-Security-Policy" content="{policy}"' in html
    assert not re.search(r"<script|<link|<img|style=|\son\w+=|https?:|url\(|@import", html)


def test_page_shows_every_method_with_strongest_tokens_and_layers():
    html = render_page(make_attribution())
    assert [unescape(h) for h in re.findall("<h2>(.*?)</h2>", html)] == ["Occlusion", "Attention"]
    assert html.count('<div class="colored"') == 4  # attention: the mean and two layers
    assert html.count("<caption>Strongest</caption>") == 2
    assert 'class="for" width="75.00"' in html
    assert 'class="against" width="25.00"' in html


def test_many_classes_are_summed_up():
    probabilities = {f"c{k}": 0.05 for k in range(14)} | {"pos": 0.2, "neg": 0.1}
    html = render_page(make_attribution(probabilities=probabilities))
    assert html.count("<rect") == 8
    assert "9 others" in html
    assert "45.0 %" in html


@pytest.mark.parametrize(
    "render", [render_page, render_fragment, lambda attribution: render_text(attribution, width=40)]
)
def test_hostile_text_stays_text(render):
    rendered = render(HOSTILE)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2028]", rendered)
    if "</" in rendered:
        assert not re.search(r"<script|<b>&amp;|<i>", rendered)


def test_long_labels_are_truncated():
    long_label = "l" * 100
    text = render_text(
        make_attribution(label=long_label, probabilities={long_label: 1.0}), width=40
    )
    assert f"for {'l' * 13}…  good\u00a0+2.00".replace("\u00a0", " ") in text
    assert all(len(line) <= 40 for line in text.splitlines())


def test_very_large_log_odds_are_bounded():
    assert "more than 485,165,195 to 1" in render_text(make_attribution(margin=900.0), width=100)
