"""The page and the terminal's view of an explanation."""

import base64
import hashlib
import re
from html import unescape

import pytest

from workings.interpret.results import Attribution, TokenAttributions
from workings.render.attribution import render_fragment, render_page, render_text


def make_shares(method, values, description="how much it is", **fields):
    return TokenAttributions(method, values, description, **fields)


def make_attribution(**fields):
    shares = [
        make_shares("occlusion", [-0.5, 0.001, 2.0]),
        make_shares("attention", [0.2, 0.3, 0.5], is_signed=False, layers=[[0.2, 0.3, 0.5]] * 2),
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
        "token_attributions": shares,
        "unit": "word",
    }
    return Attribution(**{**defaults, **fields})


NASTY = make_attribution(
    input_text="\x1b[2J<b>&\u202e",
    spans=[(0, 4), (4, 9)],
    unknown_tokens=[0, 1],
    label="<script>",
    runner_up='"\x1b[31m',
    probabilities={"<script>": 0.9, '"\x1b[31m': 0.1},
    token_attributions=[make_shares("occlusion", [1.0, -1.0], description="<i>\x1b")],
)


@pytest.mark.parametrize("unit", ["word", "character", "token"])
def test_tokens_are_called_what_they_are(unit):
    html = render_page(make_attribution(unit=unit, unknown_tokens=[1]))
    assert f"{unit.capitalize()}s in orange make it larger, {unit}s in blue smaller." in html
    assert f'<span class="unknown">{unit}</span> not in the vocabulary' in html


def test_without_colour_the_strongest_words_are_told():
    said = render_text(make_attribution(), width=80)
    assert "\x1b" not in said
    assert said.splitlines()[0] == "pos 75.0 % · neg 25.0 %"
    assert "The lead of pos over neg: 1.10, the logarithm of odds of 3.0 to 1" in said
    assert "for pos  good +2.00\nfor neg  not −0.50" in said  # very would be +0.00
    assert "most  good 0.500 · very 0.300 · not 0.200" in said


def test_with_colour_the_text_stands_above():
    said = re.sub(r"\x1b\[[\d;]*m", "", render_text(make_attribution(), width=80, color=True))
    assert " not very good \nfor pos" in said
    lines = render_text(
        make_attribution(input_text="good " * 100, token_attributions=[]), width=30, color=True
    ).splitlines()
    assert all(len(re.sub(r"\x1b\[[\d;]*m", "", line)) <= 30 for line in lines)


def test_what_was_not_read_and_not_known_is_told():
    told = make_attribution(
        input_text=f"not very good {'x' * 1234}", truncated_characters=1234, unknown_tokens=[1]
    )
    said = render_text(told, width=80, color=True)
    assert "not in the vocabulary: very" in said
    assert "The last 1,234 characters were not read: 3 tokens is all." in said
    assert "xxx" not in said
    html = render_page(told)
    assert "The last 1,234 characters" in html
    assert "xxx" not in html
    assert '<span class="unknown" title="0">very</span>' in html


def test_tokens_asked_about_together_are_shown_together():
    told = make_attribution(
        token_attributions=[make_shares("occlusion", [0.5, 0.5, -1.0], window=2)]
    )
    assert "for pos  not very +1.00" in render_text(told, width=80)
    assert 'class="p8" title="+1.00">not very</span>' in render_page(told)


@pytest.mark.parametrize(("spans", "said"), [([], "o token was read"), ([(0, 3)], "difference")])
def test_nothing_to_show(spans, said):
    told = make_attribution(
        spans=spans, token_attributions=[make_shares("gradient", [0.0] * len(spans))]
    )
    for written in (render_text(told, color=True), render_page(told), render_fragment(told)):
        assert said in written


def test_a_page_allows_only_its_own_style():
    html = render_page(make_attribution())
    (style,) = re.findall(r"<style>(.*?)</style>", html, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'"
    assert f'http-equiv="Content-Security-Policy" content="{policy}"' in html
    assert not re.search(r"<script|<link|<img|style=|\son\w+=|https?:|url\(|@import", html)


def test_a_page_shows_every_method_its_strongest_words_and_its_layers():
    html = render_page(make_attribution())
    assert [unescape(h) for h in re.findall("<h2>(.*?)</h2>", html)] == ["Occlusion", "Attention"]
    assert html.count('<div class="coloured"') == 4  # attention: the mean and two layers
    assert html.count("<caption>Strongest</caption>") == 2
    assert 'class="for" width="75.00"' in html
    assert 'class="against" width="25.00"' in html


def test_many_classes_are_put_together():
    some = {f"c{k}": 0.05 for k in range(14)} | {"pos": 0.2, "neg": 0.1}
    html = render_page(make_attribution(probabilities=some))
    assert html.count("<rect") == 8
    assert "9 others" in html
    assert "45.0 %" in html


@pytest.mark.parametrize(
    "view", [render_page, render_fragment, lambda told: render_text(told, width=40)]
)
def test_text_that_means_harm_stays_text(view):
    written = view(NASTY)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2028]", written)
    if "</" in written:
        assert not re.search(r"<script|<b>&amp;|<i>", written)


def test_long_labels_leave_room_for_the_words():
    long = "l" * 100
    said = render_text(make_attribution(label=long, probabilities={long: 1.0}), width=40)
    assert f"for {'l' * 13}…  good\u00a0+2.00".replace("\u00a0", " ") in said
    assert all(len(line) <= 40 for line in said.splitlines())


def test_a_lead_beyond_all_measure():
    assert "more than 485,165,195 to 1" in render_text(make_attribution(margin=900.0), width=100)
