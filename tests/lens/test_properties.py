"""Properties of a text, against texts marked by hand and against Python's own tokenizer."""

import io
import time
import token
import tokenize

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workings.data.texts import pieces
from workings.errors import UserError
from workings.lens.properties import Property, asked_for, from_pattern, properties
from workings.lens.scanning import KINDS, kind_of, scanned


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
    assert marks(properties(kind)[name].values(text)) == expected


def test_depth_and_places():
    known = properties("c")
    assert digits(known["brackets"].values("f(a[0])) + (")) == "011221000001"
    assert digits(known["brackets"].values("{ {\n}\n(")) == "1122001"
    assert digits(known["line"].values("ab\nc\n\nd")) == "1201001"
    assert digits(known["indentation"].values("a\n  b\n\n\tc\n")) == "0022222888"


def test_python_strings_and_comments_are_where_pythons_tokenizer_has_them():
    source = "".join(next(pieces("python-source")))[:200_000]
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
    ours = scanned(source, "python")
    assert (ours.commented == commented).all()
    assert not (ours.quoted & ~quoted).any()
    # What we leave out of a string is what opens it before its last mark, and the last of all.
    assert (quoted & ~ours.quoted).sum() < 0.12 * quoted.sum()


@given(text=st.text(alphabet="ab \n\t\"'\\#/*(){}[]:if", max_size=200), kind=st.sampled_from(KINDS))
def test_any_text_has_a_value_for_each_character(text, kind):
    for known in properties(kind).values():
        values = known.values(text)
        assert values.shape == (len(text),)
        assert (values >= 0).all()


@given(
    text=st.text(alphabet="ab \n(){}:if", max_size=60),
    later=st.text(alphabet="ab \n(){}:if", max_size=9),
    kind=st.sampled_from(KINDS),
)
def test_how_deep_it_is_does_not_depend_on_what_comes(text, later, kind):
    brackets = properties(kind)["brackets"]
    assert (brackets.values(text) == brackets.values(text + later)[: len(text)]).all()


def test_kinds_are_guessed():
    assert kind_of("".join(next(pieces("python-source")))) == "python"
    assert (
        kind_of("If it is so,\nfor all of us, with care,\nwhile he waits; and no more.\n")
        == "prose"
    )
    assert kind_of("static int f(int a)\n{\n\tif (a)\n\t\treturn 1;\n\treturn 0;\n}\n") == "c"
    assert kind_of("") == "prose"


# -- of one's own --------------------------------------------------------------------------------


def test_a_pattern_holds_in_its_matches_or_their_first_group():
    assert marks(from_pattern("numbers", r"\d+").values("a 12 3")) == "..++.+"
    assert marks(from_pattern("call", r"\w+\((\w*)\)").values("f(ab) g")) == "..++..."
    assert marks(from_pattern("first", r"^\w").values("ab\ncd")) == "+..+."


def test_a_pattern_that_explodes_is_ended():
    began = time.perf_counter()
    with pytest.raises(UserError, match="took longer than 1 s"):
        from_pattern("bad", r"(a+)+$", seconds=1.0).values("a" * 60 + "b")
    assert time.perf_counter() - began < 30


@pytest.mark.parametrize("pattern", ["(", "a{99999999999}", "*"])
def test_what_is_no_pattern_is_told(pattern):
    with pytest.raises(UserError, match="no regular expression"):
        from_pattern("bad", pattern)


def test_functions_are_held_to_what_they_should_give():
    with pytest.raises(UserError, match="expected 3 values"):
        Property("short", "", lambda _: [True]).values("abc")
    with pytest.raises(UserError, match="booleans or numbers"):
        Property("words", "", lambda text: list(text)).values("abc")
    with pytest.raises(UserError, match="not finite"):
        Property("nan", "", lambda text: [np.nan] * len(text)).values("abc")


def test_what_is_asked_for():
    text = "def f():\n    return 0\n"
    assert [p.name for p in asked_for(text)] == list(properties("python"))
    assert [p.name for p in asked_for(text, "prose", ["line", "line"])] == ["line"]
    assert [p.name for p in asked_for(text, None, None, ["a=b", "c=d=e"])] == ["a", "c"]
    with pytest.raises(UserError, match="did you mean 'quotes'"):
        asked_for(text, None, ["qoutes"])
    with pytest.raises(UserError, match="did you mean 'prose'"):
        asked_for(text, "pros")
    with pytest.raises(UserError, match="NAME=REGEX"):
        asked_for(text, None, None, ["=b"])
