"""Properties of texts: compared with marks by hand and with Python's tokenizer."""

import io
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


MARKED = [  # kind, property, text, and where the property holds
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
def test_property_holds_where_marked(kind, name, text, expected):
    assert marks(list_properties(kind)[name].compute_values(text)) == expected


def test_depth_offset_and_indentation():
    known = list_properties("c")
    assert digits(known["brackets"].compute_values("f(a[0])) + (")) == "011221000001"
    assert digits(known["brackets"].compute_values("{ {\n}\n(")) == "1122001"
    assert digits(known["line"].compute_values("ab\nc\n\nd")) == "1201001"
    assert digits(known["indentation"].compute_values("a\n  b\n\n\tc\n")) == "0022222888"


def test_strings_and_comments_match_pythons_tokenizer():
    source = "".join(next(read_corpus("python-source")))[:200_000]
    source = source[: source.rindex("\n\n\n")] + "\n"
    quoted, commented = np.zeros(len(source), bool), np.zeros(len(source), bool)
    starts = np.cumsum([0, *(len(line) for line in source.splitlines(keepends=True))])
    opened = []  # from Python 3.12 on, an f-string is tokens from its start to its end
    try:
        for item in tokenize.generate_tokens(io.StringIO(source).readline):
            start = starts[item.start[0] - 1] + item.start[1]
            end = starts[item.end[0] - 1] + item.end[1]
            name = token.tok_name[item.type]
            if name.endswith("STRING_START"):
                opened.append(start)
            elif name.endswith("STRING_END"):
                quoted[opened.pop() : end] = True
            elif item.type == token.STRING:
                quoted[start:end] = True
            elif item.type == token.COMMENT:
                commented[start:end] = True
    except (tokenize.TokenError, IndentationError):
        pytest.skip("the excerpt of this Python's library cannot be tokenized")
    scan = scan_text(source, "python")
    assert (scan.in_comment == commented).all()
    assert not (scan.in_quotes & ~quoted).any()
    # Not in quotes: prefixes, all opening marks but the last, and the last closing mark.
    assert (quoted & ~scan.in_quotes).sum() < 0.12 * quoted.sum()


@given(
    text=st.text(alphabet="ab \n\t\"'\\#/*(){}[]:if", max_size=200),
    kind=st.sampled_from(TEXT_KINDS),
)
def test_every_text_has_a_value_per_character(text, kind):
    for known in list_properties(kind).values():
        values = known.compute_values(text)
        assert values.shape == (len(text),)
        assert (values >= 0).all()


@given(
    text=st.text(alphabet="ab \n(){}:if", max_size=60),
    later=st.text(alphabet="ab \n(){}:if", max_size=9),
    kind=st.sampled_from(TEXT_KINDS),
)
def test_depth_does_not_depend_on_later_characters(text, later, kind):
    brackets = list_properties(kind)["brackets"]
    assert (
        brackets.compute_values(text) == brackets.compute_values(text + later)[: len(text)]
    ).all()


def test_kind_is_detected():
    assert detect_kind("".join(next(read_corpus("python-source")))) == "python"
    assert (
        detect_kind("If it is so,\nfor all of us, with care,\nwhile he waits; and no more.\n")
        == "prose"
    )
    assert detect_kind("static int f(int a)\n{\n\tif (a)\n\t\treturn 1;\n\treturn 0;\n}\n") == "c"
    assert detect_kind("") == "prose"


def test_pattern_holds_in_its_matches_or_their_first_group():
    assert marks(from_pattern("numbers", r"\d+").compute_values("a 12 3")) == "..++.+"
    assert marks(from_pattern("call", r"\w+\((\w*)\)").compute_values("f(ab) g")) == "..++..."
    assert marks(from_pattern("first", r"^\w").compute_values("ab\ncd")) == "+..+."


def test_pattern_that_does_not_terminate_is_stopped():
    with pytest.raises(UserError, match="took more than 1 s"):
        from_pattern("bad", r"(a+)+$", timeout=1.0).compute_values("a" * 60 + "b")


@pytest.mark.parametrize("pattern", ["(", "a{99999999999}", "*"])
def test_invalid_pattern_is_refused(pattern):
    with pytest.raises(UserError, match="invalid regular expression"):
        from_pattern("bad", pattern)


def test_values_of_the_wrong_shape_or_type_are_refused():
    with pytest.raises(UserError, match="expected 3 values"):
        Property("short", "", lambda _: [True]).compute_values("abc")
    with pytest.raises(UserError, match="booleans or numbers"):
        Property("words", "", lambda text: list(text)).compute_values("abc")
    with pytest.raises(UserError, match="NaN or infinite"):
        Property("nan", "", lambda text: [np.nan] * len(text)).compute_values("abc")


def test_properties_are_selected_by_name_kind_and_pattern():
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
