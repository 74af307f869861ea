"""Properties of a text, against texts marked by hand and against Python's own tokenizer."""

import io
import time
import token
import tokenize

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workings.data.corpora import read_corpus
from workings.errors import UserError
from workings.interpret.text_properties import (
    TEXT_KINDS,
    Property,
    detect_kind,
    from_pattern,
    list_properties,
    scan_text,
    select_properties,
)


def marks(values) -> str:
    return "".join("+" if value else "." for value in values)


def digits(values) -> str:
    return "".join(str(int(value)) for value in values)


MARKED = [  # the text, and where it holds once the character has been read
    ("prose", "quotes", 'He said "yes" twice', "........++++......."),
    ("prose", "quotes", "“One” «two»", "++++..++++."),
    ("prose", "quotes", '"a\n\n"b" c', "+++.++..."),
    ("python", "quotes", 'f(\'a\', b"c\\"d")', "..++....+++++.."),
    ("python", "quotes", '"""a\n"b"""c', "..+++++++.."),
    ("python", "comments", "a # b\n'# c'", "..+++......"),
    ("c", "comments", "a /* b\n* c */ d", "...+++++++++..."),
    ("c", "comments", 'a // b\n"/* c"', "...+++......."),
    ("c", "quotes", '"a\\"b" \'"\' c', "+++++......."),
    ("c", "if", "if (a(b)) c;", "...+++++...."),
    ("c", "if", "elif (a) #if (b)", "................"),
    ("python", "if", "if a: b\nc if d else e", "..++........+++......"),
    ("python", "if", "[a for a in b if c(d)]", "................+++++."),
]


@pytest.mark.parametrize(("kind", "name", "text", "expected"), MARKED)
def test_marked_by_hand(kind, name, text, expected):
    assert marks(list_properties(kind)[name].compute_values(text)) == expected


def test_depth_and_places():
    known = list_properties("c")
    assert digits(known["brackets"].compute_values("f(a[0])) + (")) == "011221000001"
    assert digits(known["brackets"].compute_values("{ {\n}\n(")) == "1122001"
    assert digits(known["line"].compute_values("ab\nc\n\nd")) == "1201001"
    assert digits(known["indentation"].compute_values("a\n  b\n\n\tc\n")) == "0022222888"


def test_python_strings_and_comments_are_where_pythons_tokenizer_has_them():
    source = "".join(next(read_corpus("python-source")))[:200_000]
    source = source[: source.rindex("\n\n\n")] + "\n"
    quoted, commented = np.zeros(len(source), bool), np.zeros(len(source), bool)
    starts = np.cumsum([0, *(len(line) for line in source.splitlines(keepends=True))])
    try:
        for found in tokenize.generate_tokens(io.StringIO(source).readline):
            begin = starts[found.start[0] - 1] + found.start[1]
            end = starts[found.end[0] - 1] + found.end[1]
            if found.type == token.STRING:
                quoted[begin:end] = True
            elif found.type == token.COMMENT:
                commented[begin:end] = True
    except (tokenize.TokenError, IndentationError):
        pytest.skip("this Python's library is cut where it cannot be read")
    ours = scan_text(source, "python")
    assert (ours.in_comment == commented).all()
    assert not (ours.in_quotes & ~quoted).any()
    # What we leave out of a string is what opens it before its last mark, and the last of all.
    assert (quoted & ~ours.in_quotes).sum() < 0.12 * quoted.sum()


@given(
    text=st.text(alphabet="ab \n\t\"'\\#/*(){}[]:if", max_size=200),
    kind=st.sampled_from(TEXT_KINDS),
)
def test_any_text_has_a_value_for_each_character(text, kind):
    for known in list_properties(kind).values():
        values = known.compute_values(text)
        assert values.shape == (len(text),)
        assert (values >= 0).all()


@given(
    text=st.text(alphabet="ab \n(){}:if", max_size=60),
    later=st.text(alphabet="ab \n(){}:if", max_size=9),
    kind=st.sampled_from(TEXT_KINDS),
)
def test_how_deep_it_is_does_not_depend_on_what_comes(text, later, kind):
    brackets = list_properties(kind)["brackets"]
    assert (
        brackets.compute_values(text) == brackets.compute_values(text + later)[: len(text)]
    ).all()


def test_kinds_are_guessed():
    assert detect_kind("".join(next(read_corpus("python-source")))) == "python"
    assert (
        detect_kind("If it is so,\nfor all of us, with care,\nwhile he waits; and no more.\n")
        == "prose"
    )
    assert detect_kind("static int f(int a)\n{\n\tif (a)\n\t\treturn 1;\n\treturn 0;\n}\n") == "c"
    assert detect_kind("") == "prose"


# -- of one's own --------------------------------------------------------------------------------


def test_a_pattern_holds_in_its_matches_or_their_first_group():
    assert marks(from_pattern("numbers", r"\d+").compute_values("a 12 3")) == "..++.+"
    assert marks(from_pattern("call", r"\w+\((\w*)\)").compute_values("f(ab) g")) == "..++..."
    assert marks(from_pattern("first", r"^\w").compute_values("ab\ncd")) == "+..+."


def test_a_pattern_that_explodes_is_ended():
    began = time.perf_counter()
    with pytest.raises(UserError, match="took longer than 1 s"):
        from_pattern("bad", r"(a+)+$", timeout=1.0).compute_values("a" * 60 + "b")
    assert time.perf_counter() - began < 30


@pytest.mark.parametrize("pattern", ["(", "a{99999999999}", "*"])
def test_what_is_no_pattern_is_told(pattern):
    with pytest.raises(UserError, match="no regular expression"):
        from_pattern("bad", pattern)


def test_functions_are_held_to_what_they_should_give():
    with pytest.raises(UserError, match="expected 3 values"):
        Property("short", "", lambda _: [True]).compute_values("abc")
    with pytest.raises(UserError, match="booleans or numbers"):
        Property("words", "", lambda text: list(text)).compute_values("abc")
    with pytest.raises(UserError, match="not finite"):
        Property("nan", "", lambda text: [np.nan] * len(text)).compute_values("abc")


def test_what_is_asked_for():
    text = "def f():\n    return 0\n"
    assert [p.name for p in select_properties(text)] == list(list_properties("python"))
    assert [p.name for p in select_properties(text, "prose", ["line", "line"])] == ["line"]
    assert [p.name for p in select_properties(text, None, None, ["a=b", "c=d=e"])] == ["a", "c"]
    with pytest.raises(UserError, match="did you mean 'quotes'"):
        select_properties(text, None, ["qoutes"])
    with pytest.raises(UserError, match="did you mean 'prose'"):
        select_properties(text, "pros")
    with pytest.raises(UserError, match="NAME=REGEX"):
        select_properties(text, None, None, ["=b"])
