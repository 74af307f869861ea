"""Tables as text and HTML."""

from workings.interpret.results import VectorizedText
from workings.render.tables import html_table, render_vectorized_texts, text_table


def test_text_columns_are_aligned_left_and_numbers_right() -> None:
    rows = [("猫", "noun", "12"), ("a", "x", "1,234")]
    assert text_table(("word", "kind", "count"), rows, text_columns=2).splitlines() == [
        "word  kind  count",
        "─────────────────",
        "猫    noun     12",
        "a     x     1,234",
    ]


def test_html_is_escaped() -> None:
    table = html_table(("<b>", "n"), [('"&', "1")], caption="<i>")
    assert "<caption>&lt;i&gt;</caption>" in table
    assert '<th class="word">&lt;b&gt;</th><th class="figure">n</th>' in table
    assert '<td class="word">&quot;&amp;</td><td class="figure">1</td>' in table


def test_stages_of_a_text() -> None:
    text = VectorizedText("A cat\n", "a cat", ["a", "cat"], [4, 7], [[0.5, -1.0], [0.0, 2.0]], 100)
    assert render_vectorized_texts([text]).splitlines() == [
        "text          A cat\\n",
        "standardized  a cat",
        "token  id      vector of 100",
        "────────────────────────────",
        "a       4    0.50   -1.00  …",
        "cat     7    0.00    2.00  …",
    ]
    assert "(no tokens)" in render_vectorized_texts([VectorizedText("", "", [], [], [], 4)])
