r"""Find statements like `Q = X W_Q = [matrix][matrix] = [matrix]` in a document.

A document is LaTeX, Markdown, program output or a mixture. It is read once from left to right:
matrices are cut out first, the rest is split at equals signs and at the ends of statements.

A name between a matrix and an equals sign starts a new statement, whatever separates them: in
`A = [matrix] B = [matrix]` a space is enough. Only an operator before it makes it a factor:
`Z = [matrix] · V = [matrix]`. A name after a mere space may be a factor, too; such a statement is
marked `follows_matrix`, for the reader that knows the other matrices to decide.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from workings.errors import UserError
from workings.problems.documents import latex
from workings.problems.documents.blocks import CELL_END, NUMBER, find_blocks
from workings.problems.documents.matrices import Rows, parse_matrix

_CONSTRUCTOR_NAMES = frozenset(
    {"array", "asarray", "tensor", "Tensor", "matrix", "Matrix", "Array"}
)
_CONSTRUCTOR = re.compile(r"[A-Za-z_][\w.]{0,40}\(\s{0,20}$")
_DELIMITER = re.compile(
    rf"(?P<end>\$\$|(?<!\\)\\[\[\]]|{latex.ROW_END}|\\(?:begin|end)\{{[a-z]+\*?\}}"
    r"|\n[ \t]*\n|\n(?=[ \t]*[^\s=&\\\[][^\n=\[]{0,80}=))"
    r"|(?P<equals>\\(?:stackrel|overset)[ \t]*\{[^{}=]{0,40}\}[ \t]*\{(?:=|\\approx)[ \t]*\}"
    r"|:?(?<![<>!=])=(?![=>])|\\(?:approx|simeq|equiv|cong|doteq|triangleq|coloneqq)(?![A-Za-z])"
    r"|\\(?:gets|leftarrow)(?![A-Za-z])|[≈≔≃≅≡≜←])"
)
# >>> Q with its value on the next line; dots begin the further lines of an input.
_PROMPT = re.compile(
    r"^(?:>>>|In \[\d+\]:)[ \t]*(?:print\()?(\w{1,40})\)?[ \t]*\n+(?:Out\[\d+\]:)?", re.MULTILINE
)
_CONTINUATION = re.compile(r"^\.\.\. ", re.MULTILINE)
_PRINT_LABEL = re.compile(r"\n[^\n:=\[\]]{1,60}:\s*$")  # the label of print("Q:", Q)
# Words between two statements, or after a statement, that say nothing about its matrix.
_CONNECTIVE_WORDS = """
and also with where while whereas so then thus hence therefore now next finally first second third
which that this these those it they we one you is are was were be gives give given giving get gets
got obtain obtains yields yield leads lead produces becomes become follows follow compute computes
computing calculate have has having as in on at for from to of or the an our their its both all each
every here there let us take takes using use used uses well because since if when after before again
result results resulting rounded approximately approx exactly about namely respectively likewise
similarly corresponding matrix matrices row rows column columns token tokens word words per
und sowie mit dann wobei damit et avec donc puis où con
"""
_CONNECTIVES = frozenset(_CONNECTIVE_WORDS.split())
# Ends a definition; the text after it belongs to the next name.
_SEPARATOR = re.compile(
    r"\\(?:q?quad|hspace\*?|hskip|hfil{1,3}|hrulefill|dotfill|enspace|enskip|h?phantom|m?kern|mskip"
    r"|text(?:rm|it|bf|sf|tt|normal)?|m?box|intertext|tag|label|par|newline|item|pause|bullet|mid"
    r"|middle|colon|to|implies|iff|mapsto|(?:L|l)?(?:ong)?(?:R|r)ightarrow|Leftrightarrow|wedge"
    r"|land)(?![A-Za-z])"
    r"|(?<!\\)[,;:|]|[\n\t$&│¦•‣◦→⇒⟹⟶\u2001-\u2003\u3000]|\.(?=\s)|[-=]{1,3}>|<[^<>\n]{1,60}>"
)
# The scores are [[1, 0], [0, 2]]
_VERB = re.compile(
    r"(?<=[\w$*`])\s+(?:is|are|equals?|becomes?)(?:\s+(?:now|then|thus|approximately))?[\s:$]*$"
)
_WORD = re.compile(r"(?<![\\\w{^_])[^\W\d_]+(?![\w^_{'])")
# Between two matrices: they are not factors of a product. A line may break inside a product.
_NO_PRODUCT = re.compile(
    r"\\(?:q?quad|hspace\*?|hfil{1,3}|text(?:rm|it|bf|sf|tt)?|m?box|intertext)(?![A-Za-z])"
    r"|(?<!\\)[,;:|]|[$│¦•→⇒⟹\t]|<[^<>\n]{1,60}>"
)
_CLOSING = re.compile(  # closes the brackets around a matrix, transposes it, or is a thin space
    r"(?:\s|~|\\[,;:! ]|\{\}|\\(?:right|[bB]igg?r?)(?![A-Za-z])\s*\\?[\])}|.]?|\\[\])}|]|[\])}`*]|"
    rf"{latex.TRANSPOSE})+"
)
_OPERATOR = re.compile(
    r"[-+−–/*×·⋅∗@∘⊙^_]|\\(?:cdot|times|ast|odot|circ|div|t?frac|otimes|oplus|pm|star|bullet)"
    r"(?![A-Za-z])"
)
_MATH_END = re.compile(r"\$|(?<!\\)\\[\])]|\\end\b")
_TIMES = re.compile(r"\\(?:times|cdot|ast)(?![A-Za-z])|[×·*@]")
_ANNOTATION = re.compile(  # \text{…} and \cancel{…}, a size after the matrix
    r"\\(?:text(?:rm|it|bf)?|b?x?cancel) ?\{(?:[^{}]|\{[^{}]*\})*\}|\\(?:blacksquare|qed)\b"
    r"|_?[({]\d+ ?(?:\\times|×|x) ?\d+[)}]"
)


@dataclass
class Segment:
    """The part between two equals signs: text, matrix, text, matrix, …, text."""

    texts: list[str] = field(default_factory=lambda: [""])
    matrices: list[str] = field(default_factory=list)

    def get_single_matrix(self) -> str | None:
        """Return the matrix if the segment has nothing else, otherwise None."""
        if len(self.matrices) != 1 or self.get_surrounding_text():
            return None
        _, transposed = latex.strip_decoration(self.texts[1])
        return self.matrices[0] + ("^T" if transposed else "")

    def get_surrounding_text(self) -> str:
        """Return the text before and after the matrices, without brackets and annotations."""
        before, _ = latex.strip_decoration(self.texts[0])
        text = _MATH_END.split(self.texts[-1].replace("\\ ", " "))[0]  # after a formula is prose
        text = _ANNOTATION.sub("", " ".join(text.split()))
        after, _ = latex.strip_decoration(_WORD.sub(_drop_connective, text))
        return " ".join(part for part in (before, after) if part)

    def get_factors(self) -> list[str]:
        """Return the matrices if the segment is their product, otherwise []."""
        rest = [latex.strip_decoration(_TIMES.sub("", text))[0] for text in self.texts]
        return [] if any(rest) else self.get_transposed_matrices()

    def get_transposed_matrices(self) -> list[str]:
        """Return the matrices; those that are transposed in the text end with ^T."""
        transposed = [latex.strip_decoration(text)[1] for text in self.texts[1:]]
        return [m + ("^T" if t else "") for m, t in zip(self.matrices, transposed, strict=True)]


@dataclass
class Statement:
    """A chain `left = segment = segment …`, and its position in the text.

    `follows_matrix`: only a space separates its name from the matrix of the statement before, of
    which it may be a factor. `is_sentence`: it is prose, `the scores are [matrix]`.
    """

    left: str
    segments: list[Segment]
    position: int
    follows_matrix: bool = False
    is_sentence: bool = False


def find_statements(text: str) -> list[Statement]:
    """Return all statements of a document in order."""
    text = _PROMPT.sub(r"\1 =\n", _CONTINUATION.sub("    ", text))
    blocks = find_blocks(text)
    text = _blank_out(text, list(dict.fromkeys((block.start, block.end) for block in blocks)))
    scanner = _StatementScanner()
    position = 0
    for start, end in _find_matrices(text):
        scanner.read_text(text[position:start], position)
        scanner.add_matrix(text[start:end], start)
        position = end
    scanner.read_text(text[position:], position)
    scanner.end_statement()
    statements = [Statement(b.name, [Segment(["", ""], [b.matrix])], b.start) for b in blocks]
    return sorted(statements + scanner.statements, key=lambda statement: statement.position)


def parse_numbers(matrix: str, where: str) -> Rows | None:
    """Parse a matrix; return None if it has no numbers but symbols for its cells."""
    try:
        rows = parse_matrix(matrix, where)
    except UserError:
        if any(NUMBER.fullmatch(piece) for piece in CELL_END.split(matrix)):
            raise
        return None
    return rows if any(cell != "?" for row in rows for cell in row) else None


class _StatementScanner:
    """Builds statements from the texts and matrices of a document, in order."""

    def __init__(self) -> None:
        self.statements: list[Statement] = []
        self._chain = [Segment()]
        self._position = 0
        self._follows_matrix = self._is_sentence = False

    def read_text(self, text: str, position: int) -> None:
        """Add text without matrices; split it at equals signs and ends of statements."""
        start = 0
        for mark in _DELIMITER.finditer(text):
            self._chain[-1].texts[-1] += text[start : mark.start()]
            start = mark.end()
            if mark.lastgroup == "equals":
                self._add_equals(position + mark.start())
            elif len(self._chain) == 1 or self._chain[-1] != Segment():  # not right after an =
                self.end_statement()
        self._chain[-1].texts[-1] += text[start:]

    def add_matrix(self, matrix: str, position: int) -> None:
        """Add a matrix to the current segment; a label before it begins a new statement."""
        segment = self._chain[-1]
        if segment.matrices and (label := _PRINT_LABEL.search(segment.texts[-1])):  # the next print
            segment.texts[-1] = ""
            self.end_statement()
            segment = self._chain[-1]
            segment.texts[0] = label.group()
        elif segment.matrices and (mark := _find_end_of_product(segment.texts[-1])) is not None:
            between = segment.texts[-1]  # X = [matrix], then prose and a matrix without a name
            segment.texts[-1] = between[:mark]
            self.end_statement()
            segment = self._chain[-1]
            segment.texts[0] = between[mark:]
        if len(self._chain) == 1 and not segment.matrices:
            name, colon, rest = segment.texts[0].rpartition(":")
            verb = _VERB.search(segment.texts[0])
            if verb or (colon and not latex.strip_decoration(rest)[0]):  # X: [[1, 0], [0, 2]]
                segment.texts[0] = segment.texts[0][: verb.start()] if verb else name
                self._is_sentence, self._position = verb is not None, position
                segment = Segment()
                self._chain.append(segment)
        segment.matrices.append(matrix)
        segment.texts.append("")

    def _add_equals(self, position: int) -> None:
        segment = self._chain[-1]
        own, name, is_separate = _split_off_name(segment) if segment.matrices else ("", "", False)
        if name:  # X = [matrix], W_Q = …: two statements
            segment.texts[-1] = own
            self.end_statement()
            self._chain[-1].texts[0] = name
            self._follows_matrix = not is_separate
        if len(self._chain) == 1:
            self._position = position
        self._chain.append(Segment())

    def end_statement(self) -> None:
        """Store the current statement, or append it to the one that it continues."""
        first, *rest = self._chain
        follows_matrix, is_sentence = self._follows_matrix, self._is_sentence
        self._follows_matrix = self._is_sentence = False
        self._chain = [Segment()]
        if not rest and self.statements and len(first.get_factors()) > 1:
            self.statements[-1].segments.append(first)  # $$Q = X W_Q$$, then $$[A] × [B]$$
        if not rest or first.matrices:
            return
        if latex.strip_decoration(first.texts[0])[0]:
            self.statements.append(
                Statement(first.texts[0], rest, self._position, follows_matrix, is_sentence)
            )
        elif self.statements:  # a line that begins with = continues the chain
            self.statements[-1].segments += rest


def _split_off_name(segment: Segment) -> tuple[str, str, bool]:
    """Split the text after the last matrix of a segment at the name of the next statement.

    Return the part that belongs to the matrix, the name and whether more than a space separates
    them. The name is empty if the text continues the formula: [matrix] V, [matrix]^T, [matrix] / 2.
    """
    text = segment.texts[-1]
    marks = [m for m in (_SEPARATOR.search(text), _find_connective(text)) if m is not None]
    if marks:
        start = min(mark.start() for mark in marks)
        has_name = bool(latex.strip_decoration(text[start:])[0])
        return (text[:start], text[start:], True) if has_name else (text, "", False)
    closing = _CLOSING.match(text)
    start = closing.end() if closing else 0
    is_formula = _OPERATOR.match(text, start) or latex.strip_decoration(segment.texts[0])[0]
    if is_formula or not latex.strip_decoration(text[start:])[0]:
        return text, "", False
    return text[:start], text[start:], False


def _find_end_of_product(between: str) -> int | None:
    """Return where a product ends in the text between two matrices; None if they are factors."""
    marks = [m for m in (_NO_PRODUCT.search(between), _find_connective(between)) if m is not None]
    return min((mark.start() for mark in marks), default=None)


def _find_connective(text: str) -> re.Match[str] | None:
    return next((m for m in _WORD.finditer(text) if m.group().lower() in _CONNECTIVES), None)


def _drop_connective(word: re.Match[str]) -> str:
    return "" if word.group().lower() in _CONNECTIVES else word.group()


def _find_matrices(text: str) -> list[tuple[int, int]]:
    """Return the spans of matrices: LaTeX environments, lists in brackets, array(…), tensor(…)."""
    environments, unclosed = latex.find_environments(text)
    if unclosed:
        raise UserError(f"\\begin{{{unclosed}}} has no \\end{{{unclosed}}}")
    spans = [(e.start, e.end) for e in environments]
    last = 0
    for start, end in sorted(_find_lists(_blank_out(text, spans))):
        if start >= last:
            spans.append((start, end))
            last = end
    return sorted(spans)


def _find_lists(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of lists with numbers, and of array( … ) around them."""
    opened: list[tuple[int, int]] = []  # position, depth of the lists inside
    lists, closed = [], {}
    for mark in re.finditer(r"\\.|[\[\]()]", text, re.DOTALL):
        if mark.group() in ("[", "("):
            opened.append((mark.start(), 0))
        elif mark.group() in ("]", ")") and opened:
            start, depth = opened.pop()
            closed[start] = mark.end()
            if (text[start], mark.group()) == ("[", "]"):
                depth += 1
                lists.append((start, mark.end(), depth))
            if opened:
                opened[-1] = (opened[-1][0], max(opened[-1][1], depth))
    for start, end, depth in lists:
        if depth <= 3 and not _is_index(text[max(0, start - 30) : start]):
            inside = latex.to_plain_text(text[start + 1 : end - 1])
            if any(NUMBER.fullmatch(piece) for piece in CELL_END.split(inside)):
                call = _CONSTRUCTOR.search(text, max(0, start - 60), start)
                if call and call[0].rstrip().rstrip("(").split(".")[-1] in _CONSTRUCTOR_NAMES:
                    yield call.start(), closed.get(call.start() + call[0].index("("), end)
                yield start, end


def _is_index(before: str) -> bool:
    r"""Return True if a bracket after this text is an index, x[0], and not \times [0]."""
    return bool(re.search(r"[\w)]\Z", before)) and not re.search(r"\\[A-Za-z]+\Z", before)


def _blank_out(text: str, spans: list[tuple[int, int]]) -> str:
    """Replace spans of a text with spaces."""
    pieces, position = [], 0
    for start, end in spans:
        pieces += [text[position:start], " " * (end - start)]
        position = end
    return "".join([*pieces, text[position:]])
