"""Reading of problem files: every error is one line that names the key and what is expected."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest

from workings.errors import UserError
from workings.problems.problem import Problem
from workings.problems.problem_file import MAX_PROBLEM_BYTES

X = "[given]\nX = [[1, 0], [0, 2]]\n"
HEADS = "heads = 2\n" + X
NORM = 'kind = "layer_norm"\n[given]\nX = [[1, 2], [3, 4]]\n'
POSITIONS = 'kind = "positions"\n[given]\ncount = 2\nwidth = 2\n'
RNN = 'kind = "rnn"\n[given]\nX = [[1], [2]]\nW_xh = [[1]]\nW_hh = [[1]]\n'
BLOCK = 'kind = "block"\n[given]\nX = [[1, 0], [0, 2]]\nW_1 = [[1], [1]]\nW_2 = [[1, 1]]\n'


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("problems") / "slide.toml"


def load_error(content: str | bytes, path: Path) -> str:
    """Return the message of loading a file, without the name of the file."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    with pytest.raises(UserError) as error:
        Problem.load(path).solve().to_json()
    message = str(error.value)
    assert message.startswith(f"{path}: ")
    assert message.isprintable()
    message = message.removeprefix(f"{path}: ")
    assert len(message) < 400
    return message


@pytest.mark.parametrize(
    ("text", "message_part"),
    [
        (X + '[claims]\nQ = [[1]]', "claims: no such key: did you mean 'claim'?"),
        ("scal = 2\n" + X, "scal: no such key: did you mean 'scale'?"),
        ("zebra = 2\n" + X, "zebra: no such key: expected one of title, kind, vectors"),
        ("X = [[1]]\n", "X belongs in the table [given]"),
        ("[givn]\nX = [[1]]", "givn: no such key: did you mean 'given'?"),
        ('knd = "layer_norm"\n' + NORM, "knd: no such key: did you mean 'kind'?"),
        ("heads = 2\n" + NORM, "heads: no such key"),
        ("[given]\nX = [[1]]\nK = [[1], [2]]", "without context or V, X has 1 rows, but K has 2"),
        ("[given]\nX = [[1]]\nV = [[1], [2]]", "without context or K, X has 1 rows, but V has 2"),
        ("[given.X]\na = 1", "given.X must be a matrix"),
        ("[given]\nX = [[1]]\nW_QQ = [[1]]", "given.W_QQ: no such given: did you mean 'W_Q'?"),
        (X + "[claim]\nwieghts = [[1]]", "claim.wieghts: no such step: did you mean 'weights'?"),
        (X + "[claim]\nzebra = 1", "claim.zebra: no such step: expected one of Q, K, V, scores"),
        (X + "[claim.hed.1]\nscores = [[1]]", "claim.hed: no such table: did you mean 'head'?"),
        (X + "[claim.Q.x]\ny = 1", "claim.Q: no such table: expected one of head, again"),
        (X + '[claim]\n"scores.1" = [[1]]',
         "claim.scores.1: no such step: the name of a step has no dot"),
        ('"a\\nb\\u001b\\u2028" = 1\n' + X, "a\\nb\\x1b\\u2028: no such key"),
        ("k" * 100_000 + " = 1\n" + X, "no such key"),
        (X + f"[claim]\n{'k' * 100_000} = 1", "no such step"),
        ("given = 3", "given must be a table: [given]"),
        ("[[given]]\nX = 1", "given must be a table"),
        (X + "[[claim]]\nQ = 1", "claim must be a table: [claim]"),
        ("claim = []\n" + X, "claim must be a table"),
        (HEADS + "[claim.head.3]\nscores = [[1]]",
         "claim.head.3.scores: no such step: did you mean 'head.2"),
        (HEADS + "[claim.head.0]\nscores = [[1]]", "claim.head.0: expected tables like [claim.h"),
        (HEADS + "[claim.head.01]\nscores = [[1]]", "claim.head.01: expected tables like"),
        (HEADS + "[claim.head.two]\nscores = [[1]]", "claim.head.two: expected tables like"),
        (HEADS + '[claim.head."²"]\nscores = [[1]]', "claim.head.²: expected tables like"),
        (HEADS + f"[claim.head.{'9' * 5000}]\nscores = [[1]]",
         "expected tables like [claim.head.1]"),
        (HEADS + "[claim.head]\n1 = [[1]]", "claim.head.1: expected tables like"),
        (HEADS + "[claim]\nhead = [[1]]", "claim.head: no such step"),
        (HEADS + "[claim]\nscores = [[1]]", "claim.scores: no such step: did you mean 'head."),
        (X + "[claim.head.1]\nscores = [[1, 0], [0, 4]]", "claim.head.1.scores: no such step"),
        (HEADS + "[claim.head.1.scores]\na = 1", "claim.head.1.scores must be a matrix"),
        (RNN + "[claim.t.3]\nh = [[1]]", "claim.t.3.h: no such step: did you mean 't.2.h'?"),
        (BLOCK + "[claim.attention]\nqq = [[1]]", "claim.attention.qq: no such step"),
        (X + "[claim.again]\nQ = [[1]]", "claim.again must be a list of tables: [[claim.again]]"),
        (X + "[claim]\nagain = 3", "claim.again must be a list of tables"),
        (X + "[claim]\nagain = [[1]]", "claim.again must be a list of tables"),
        (X + "[[claim.again]]\nQ = [[1]]", "claim.again.1.Q is 1×1; it must be 2×2"),
        (X + "[[claim.again]]\n[[claim.again]]\nqq = [[1]]", "claim.again.2.qq: no such step"),
        ("[given]\nX = [[1, 2], [3]]", "given.X: row 2 has 1 numbers, row 1 has 2"),
        ("[given]\nX = [[1, 2], 3]", "given.X: row 2 must be a list of numbers"),
        ("[given]\nX = []", "given.X must be a matrix: [[1, 0], [0, 2]]"),
        ("[given]\nX = [[]]", "given.X: row 1 must be a list of numbers"),
        ("[given]\nX = true", "given.X must be a matrix"),
        (X + "W_Q = [[1]]", "W_Q has 1 rows, but X has 2 columns: it must be 2"),
        (X + "W_Q = [[1], [2]]\nW_K = [[1, 2], [3, 4]]",
         "W_K has 2 columns, but W_Q has 1 columns: it must be 1"),
        ('vectors = "columns"\n' + X + "W_Q = [[1]]",
         "W_Q has 1 columns, but X has 2 rows: it must be 2"),
        (X + "b_Q = [[1, 2], [3, 4]]", "b_Q has 2 rows: it must be a single vector"),
        (X + "[claim]\nscores = [[1, 2]]", "claim.scores is 1×2; it must be 2×2"),
        ('vectors = "columns"\n' + X + "[claim]\nQ = [[1, 2]]", "claim.Q is 1×2; it must be 2×2"),
        (X + f"[claim]\nQ = [{'[0],' * 1025}]", "claim.Q: a side of 1025; at most 1024 are"),
        ("[given]\nQ = [[1]]\nW_Q = [[1]]\nK = [[1]]\nV = [[1]]",
         "given has both Q and W_Q: give Q itself or its weights"),
        ("[given]\nW_Q = [[1]]", "given.X is missing: kind attention needs it"),
        ("[given]\nQ = [[1]]\nV = [[1]]", "given.K is missing"),
        ("title = 'x'", "given.X is missing"),
        (RNN.replace("W_hh", "W_hx"), "given.W_hx: no such given: did you mean"),
        ('kind = "lstm"\n[given]\nX = [[1]]\nW_x = [[1, 2, 3]]\nW_h = [[1, 2, 3, 4]]',
         "it must be a multiple of 4"),
        ("[given]\nX = [[nan]]", "given.X: 'nan' is not a number"),
        ("[given]\nX = [[true]]", "True is not a number"),
        ("[given]\nX = [[inf]]", "given.X: every cell must be a finite number"),
        ("[given]\nX = [['?']]", "given.X: every cell must be a finite number"),
        ("[given]\nX = [[1979-05-27]]", "datetime.date(1979, 5, 27) is not a number"),
        ("[given]\nX = [[07:32:00]]", "not a number"),
        ("[given]\nX = [[{a = 1}]]", "is not a number"),
        ("[given]\nX = [[[1]]]", "given.X: [1] is not a number"),
        ("[given]\nX = [[1e999]]", "too large or too small for a 64-bit float"),
        ("[given]\nX = [[1e-999999999999999999999]]", "too large an exponent"),
        (f"[given]\nX = [[{'9' * 5000}]]", "not TOML"),
        (f"[given]\nX = [[0x{'f' * 5000}]]", "at most 60 characters"),
        (f"[given]\nX = [[0.{'3' * 5000}]]", "at most 60 characters"),
        ("[given]\nX = [['1/0']]", "divides by zero"),
        (X + "[claim]\nQ = [[nan, 1], [1, 1]]", "claim.Q: 'nan' is not a number: write 0.5"),
        ("[given]\nX = 'hello'", "given.X: 'hello' is not a matrix: expected LaTeX"),
        ("[given]\nX = ''", "given.X: the matrix is empty"),
        ("[given]\nX = '''1 2\n3'''", "given.X: row 2 has 1 numbers"),
        (r'[given]' + '\nX = "\\begin{bmatrix} 1 \\end{bmatrix}"', "not TOML"),
        ('[given]\nX = "\\begin{bmatrix} 1 & 2"', "quote LaTeX with '''"),
        ('kind = "atention"\n' + X, "kind = 'atention': did you mean 'attention'?"),
        ("kind = 3\n" + X, "kind = 3: expected"), ("kind = ['attention']\n" + X, "kind = "),
        ('vectors = "colum"\n' + X, "did you mean 'columns'?"),
        ("title = 3\n" + X, "title must be a string, not 3"),
        (f"title = 0x{'f' * 5000}\n" + X, "not a value too large to show"),
        ("heads = 0\n" + X, "heads = 0: it must be a whole number from 1 to 1024"),
        ("heads = true\n" + X, "heads = True"),
        ('heads = "two"\n' + X, "heads = 'two': it must be a whole number"),
        ("heads = 2.0\n" + X, "heads = '2.0'"), ("heads = -1\n" + X, "heads = -1"),
        ("heads = 3\n" + X, "heads = 3 does not divide Q's width of 2"),
        (f"heads = 0x{'f' * 5000}\n" + X, "heads = a value too large to show: it must be"),
        ("scale = 0\n" + X, """scale = 0: expected "sqrt(d_k)", "none" or a number"""),
        ('scale = "sqrt(d)"\n' + X, "scale = 'sqrt(d)': expected"),
        ("scale = nan\n" + X, "scale = 'nan'"), ("scale = true\n" + X, "scale = True"),
        ("scale = []\n" + X, "scale = []"), ("scale = '?'\n" + X, "scale = '?'"),
        ('mask = "cuasal"\n' + X, """mask = 'cuasal': expected "none", "causal" or a 0/1 matrix"""),
        ("mask = [[1, 2], [1, 1]]\n" + X, "mask: every cell must be 1 (may attend) or 0 (may not)"),
        ("mask = [[1, '?'], [1, 1]]\n" + X, "mask: every cell must be 1"),
        ("mask = [[1]]\n" + X, "mask is 1×1; it must be 2×2"),
        ("mask = [[true, false], [true, true]]\n" + X, "True is not a number"),
        ("mask = 3\n" + X, "mask is 1×1; it must be 2×2"),
        ("mask = [[1, 0], [1]]\n" + X, "mask: row 2 has 1 numbers"),
        ('normalizer = "softmx"\n' + X, "did you mean 'softmax'?"),
        ('normalizer = "sum"\n[given]\nX = [[0], [1]]',
         "weights cannot be computed: vector 1 of it divides by zero"),
        ('scale = "none"\nnormalizer = "sum"\n[given]\nQ = [[1]]\nK = [[0.1], [0.2], [-0.3]]\n'
         "V = [[1], [2], [3]]", "weights cannot be computed: vector 1 of it divides by zero"),
        ('tokens = ["a"]\n' + X, "tokens has 1 names, but there are 2 tokens"),
        ("tokens = 'ab'\n" + X, "tokens must be a list"),
        ("tokens = [1, 2]\n" + X, 'tokens must be a list of strings: ["the", "cat"]'),
        ('context_tokens = ["a"]\n' + X, "context_tokens has 1 names, but there are 2 tokens"),
        (NORM.replace("[3, 4]", "[3, 3]"),
         "normalised cannot be computed: vector 2 of it divides by zero (is X constant"),
        (NORM + "eps = -1", "given.eps = -1: it must be positive"),
        (NORM + "eps = 'small'", "given.eps: 'small' is not"),
        (POSITIONS.replace("width = 2", "width = 0"),
         "given.width = 0: it must be a whole number from 1 to 1024"),
        (POSITIONS.replace("width = 2", "width = 1_000_000_000"),
         "given.width = 1000000000: it must be"),
        (POSITIONS.replace("count = 2\n", ""), "given.count is missing: kind positions needs it"),
        (POSITIONS + "base = 0", "given.base = 0: it must be positive"),
        (POSITIONS + "[claim]\nangles = 3", "claim.angles is 1×1; it must be"),
        ("[given]\nX = [[1e200, 1e200]]",
         "scores cannot be computed: vector 1 of it has a number that is too large"),
        ("[given]\nX = [[1e200, -1e200]]\nW_Q = [[-1e200], [1e200]]\nW_K = [[1], [1]]",
         "Q cannot be computed"),
        ("", "the file is empty: a problem needs a [given] table"), (" \n# nothing\n", "empty"),
        ("hello", "not TOML"), ("[given", "not TOML"), ("X = [[1, 2], [3, 4]", "not TOML"),
        ("a = 1\na = 2", "not TOML"), ("\x00", "not TOML"), ("title = 'a\x01b'\n" + X, "not TOML"),
        ("[given]\nX = [[1\x00]]", "not TOML"), ("{}", "not TOML"),
        ("X = " + "[" * 10_000, "nested too deeply"),
        ("X = " + "[" * 10_000 + "]" * 10_000, "nested too deeply"),
        ("X = " + "{a=" * 10_000, "nested too deeply"),
        (".".join("a" * 10_000) + " = 1", "nested too deeply"),
        (f"[{'.'.join('a' * 10_000)}]", "nested too deeply"),
        ("title" + ".'a'" * 10_000 + " = 1", "nested too deeply"),
        ("a = {" + ' . "b"' * 0 + "b . " * 10_000 + "c = 1}", "nested too deeply"),
        ("title = " + "[" * 150 + "]" * 150 + "\n" + X, "title must be a string"),
    ],
    ids=lambda value: value[-25:],
)  # fmt: skip
def test_error_names_key_and_expected_value(text: str, message_part: str, path: Path) -> None:
    assert message_part in load_error(text, path)


@pytest.mark.parametrize(
    ("content", "message_part"),
    [
        (b"\xff\xfe[\x00g\x00", "not UTF-8 text (byte 0)"),
        (b"PK\x03\x04" + bytes(range(256)), "not UTF-8"), (b"\x7fELF\x02\x01\x01\x00", "not TOML"),
        (b"title = '\xed\xa0\x80'", "not UTF-8 text"),
    ],
    ids=["UTF-16", "zip", "program", "surrogate"],
)  # fmt: skip
def test_binary_file_is_rejected(content: bytes, message_part: str, path: Path) -> None:
    assert message_part in load_error(content, path)


def test_large_file_is_rejected_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "large.toml"
    with path.open("wb") as file:
        file.truncate(50_000_000)
    with pytest.raises(UserError, match=r"large\.toml: larger than 2 MB: not a problem file"):
        Problem.load(path)
    path.write_text(X + "#" * (MAX_PROBLEM_BYTES - len(X)))
    assert Problem.load(path).sizes["n"] == 2
    if os.path.exists("/dev/zero"):  # noqa: PTH110
        with pytest.raises(UserError, match="larger than 2 MB"):
            Problem.load("/dev/zero")


@pytest.mark.parametrize("name", ["nothing.toml", "", "a\nb.toml", "a\0b.toml", "x" * 5000])
def test_file_that_cannot_be_opened(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        Problem.load(f"{tmp_path}/{name}")
    assert str(error.value).isprintable()
    assert tmp_path.name in str(error.value)


def test_error_has_the_whole_path_of_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nothing\.toml: no such file"):
        Problem.load(tmp_path / ("long" * 20) / "nothing.toml")


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + X.encode(), X.replace("\n", "\r\n").encode(),
        (X + "W_Q = [[1_0.0_1, 0], [0, 0.000_5]]").encode(),
        ('tokens = ["\\u001b[31m", "\\u202e<script>"]\n' + X).encode(),
        ('title = "\\u0000\\u2028 x"\n' + X).encode(),
        ("title = 'ünï\u202e \U0001f600'\n" + X).encode(),
        ("# " + "." * 10_000 + "\n" + X).encode(),
        (X + "[claim]\nQ = '''\n| a | b |\n|---|---|\n| 1 | 0 |\n| 0 | 2 |\n'''").encode(),
        (X + "[claim]\nscores = '\\begin{bmatrix} 1 & 0 \\\\ 0 & ? \\end{bmatrix}'").encode(),
        ("mask = '''1 0\n1 1'''\n" + X).encode(), ("mask = '[[1, 0], [1, 1]]'\n" + X).encode(),
    ],
)  # fmt: skip
def test_unusual_valid_files(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    assert np.isfinite(Problem.load(path).solve()["weights"]).all()


def test_underscores_in_decimals() -> None:
    assert Problem.from_toml("[given]\nX = [[1_0.0_1]]").given["X"].mid.tolist() == [[10.01]]


def test_python_values() -> None:
    x = [[1, 0], [0, 2]]
    for same in (
        np.array(x),
        tuple(map(tuple, x)),
        list(np.array(x)),
        [[np.int64(1), 0], [0, 2.0]],
    ):
        assert Problem(X=same).given["X"].mid.tolist() == x
    for mask in (np.tril(np.ones((2, 2))), np.tril(np.ones((2, 2), dtype=bool)), [[1, 0], [1, 1]]):
        assert Problem(X=x, mask=mask).setting.mask.tolist() == [[True, False], [True, True]]
    nested: list[object] = []
    for _ in range(5000):
        nested = [nested]
    for fields in (
        {}, {"given": 3}, {"given": "ab"}, {"X": None}, {"X": x, "given": 3}, {"X": nested},
        {"X": [[10**5000]]}, {"X": x, "kind": nested}, {"X": x, "title": nested}, {"X": "ab"},
        {"X": x, "heads": 10**5000}, {"X": x, "scale": nested}, {"X": x, "mask": nested},
        {"X": x, "claim": nested}, {"X": np.ones((2, 2, 2))}, {"X": np.bool_(1)},
        {"X": x, "claim": {"head": {"1": 3}}}, {"kind": None, "X": x}, {"X": np.array([["a"]])},
        {"X": x, "tokens": 3}, {"X": [[1.5, float("nan")]]},
    ):  # fmt: skip
        with pytest.raises(UserError) as error:
            Problem(**fields)
        assert str(error.value).isprintable()


def test_overflow_raises_user_error_without_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserError, match="too large"):
            Problem.from_toml("[given]\nX = [[1e200, 1e200]]").solve().to_json()


def test_memory_of_small_file(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    path = tmp_path / "tall.toml"
    path.write_text(f"[given]\nX = [{'[1],' * 1024}]")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert Problem.load(path).solve()["weights"].shape == (1024, 1024)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_000_000  # kB


def test_numbers_and_flat_lists_are_matrices() -> None:
    claims = "[claim.t.1]\nsum = 0.64\nh = [0.565]\n[claim.t.2]\nsum = '?'\nh = 0.022"
    text = "kind = 'rnn'\n[given]\nX = [0.6, -0.4]\nW_xh = 0.9\nW_hh = 0.5\nb = 0.1\n"
    problem = Problem.from_toml(text + claims)
    assert problem.given["X"].shape == (2, 1)  # a column: the weights have a single row
    assert problem.check().counts == {
        "right": 3,
        "rounded": 0,
        "follows": 0,
        "wrong": 0,
        "blank": 1,
    }
    assert Problem(X=3).solve()["scores"] == [[9]]
    row = Problem(kind="rnn", X=[1, 2], W_xh=[[1, 0], [0, 1]], W_hh=[[1, 0], [0, 1]])
    assert row.given["X"].shape == (1, 2)
    column = Problem(kind="rnn", X=[[1, 2]], W_xh=[1, 3], W_hh=1)
    assert column.solve()["sum", 1] == [[7]]
    with pytest.raises(UserError, match="X has 3 columns, but"):
        Problem(kind="rnn", X=[1, 2, 3], W_xh=[[1, 0], [0, 1]], W_hh=[[1, 0], [0, 1]])
