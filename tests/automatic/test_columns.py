"""Columns are chosen by name, by content, or as given; generated tables of any order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workings import UserError
from workings.automatic.columns import (
    choose_label_columns,
    choose_pair_columns,
    choose_text_column,
    find_language,
    has_header,
    profile_columns,
)

SENTENCES = ("the film was {}", "a {} story told well", "what a {} day", "nothing {} here at all")


def make_rows(columns, count=60):
    """Return rows whose columns are of a kind: text, label, id, number or date."""
    kinds = {
        "text": lambda i: f"{SENTENCES[i % 4].format(i)} and more words {i * 7}",
        "label": lambda i: ("good", "bad", "fair")[i % 3],
        "id": lambda i: f"a{i:05}",
        "number": lambda i: str(i * 1.5),
        "date": lambda i: f"2024-01-{i % 28 + 1:02}",
    }
    return [{name: kinds[kind](i) for name, kind in columns.items()} for i in range(count)]


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(["text", "review", "Review Text", "tweetContent", "xyz"]),
    st.sampled_from(["label", "sentiment", "Category", "product_category", "abc"]),
    st.permutations(["text", "label", "id", "date", "number"]),
)
def test_texts_and_labels_are_chosen_in_any_order_with_any_names(text, label, order):
    names = {"text": text, "label": label, "id": "id", "date": "date", "number": "price"}
    rows = make_rows({names[kind]: kind for kind in order})
    choice = choose_label_columns(profile_columns(rows))
    assert (choice.first, choice.second) == (text, label)


def test_content_decides_where_a_name_does_not_fit():
    rows = make_rows({"text": "number", "body": "text", "label": "id", "kind": "label"})
    choice = choose_label_columns(profile_columns(rows))
    assert (choice.first, choice.second) == ("body", "kind")


def test_labels_may_be_numbers_and_values_may_be_missing():
    rows = [{"review": f"text number {i}", "stars": i % 5 or None} for i in range(50)]
    choice = choose_label_columns(profile_columns(rows))
    assert (choice.first, choice.second) == ("review", "stars")
    assert choice.reason == "both by name"


def test_given_columns_stay():
    rows = make_rows({"title": "text", "text": "text", "a": "label", "label": "label"})
    choice = choose_label_columns(profile_columns(rows), "title", "a")
    assert (choice.first, choice.second, choice.reason) == ("title", "a", "both given")
    with pytest.raises(UserError, match="no column 'x': the columns are title, text, a, label"):
        choose_label_columns(profile_columns(rows), "x")


def test_a_table_without_texts_or_labels_is_refused():
    with pytest.raises(UserError, match=r"no column beside .a. has labels.*--data\.label NAME"):
        choose_label_columns(profile_columns(make_rows({"a": "text", "b": "id"})))
    with pytest.raises(UserError, match="no column has texts"):
        choose_label_columns(profile_columns(make_rows({"a": "number", "b": "number"})))


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"id": "id", "en": "text", "fr": "text"}, ("en", "fr")),
        ({"target": "text", "source": "text"}, ("source", "target")),
        ({"1": "text", "2": "text", "3": "text"}, ("1", "2")),
        (
            {"translation.de": "text", "translation.en": "text"},
            ("translation.de", "translation.en"),
        ),
        ({"English": "text", "note": "text", "German": "text"}, ("English", "German")),
    ],
)
def test_sentence_pairs(columns, expected):
    choice = choose_pair_columns(profile_columns(make_rows(columns)))
    assert (choice.first, choice.second) == expected


def test_a_pair_needs_two_columns_of_sentences():
    profiles = profile_columns(make_rows({"en": "text", "price": "number"}))
    with pytest.raises(UserError, match="two columns of sentences are needed"):
        choose_pair_columns(profiles)
    rows = make_rows({"en": "text", "fr": "text", "de": "text"})
    choice = choose_pair_columns(profile_columns(rows), target="en")
    assert (choice.first, choice.second) == ("fr", "en")


def test_text_of_a_language_model():
    assert (
        choose_text_column(profile_columns(make_rows({"id": "id", "lyrics": "text"}))) == "lyrics"
    )


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([["review", "sentiment"], ["Good.", "1"]], True),
        ([["", "review", "sentiment"], ["0", "Good.", "1"]], True),  # an index of pandas
        ([["3", "Wall St. Bears Claw Back"], ["4", "Oil prices"]], False),
        ([["positive", "I liked it"], ["negative", "No."], ["positive", "Yes."]], False),
        ([["x" * 61, "a"], ["b", "c"]], False),
        ([["text", "text"], ["b", "c"]], False),
        ([["text", ""], ["b", "c"]], False),
    ],
)
def test_headers(rows, expected):
    assert has_header(rows[0], rows[1:]) is expected


def test_languages():
    assert [find_language(n) for n in ("eng", "src_de", "pt-br", "label")] == [
        "en",
        "de",
        "pt",
        None,
    ]
