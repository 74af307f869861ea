"""Find the stretches of mathematics in the lines of a document.

A *run* is a stretch of symbols, numbers, operators and matrices between words and punctuation. A
run that begins with a relation continues the run before it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from workings.problems.documents.sources import Place, Source
from workings.problems.documents.symbols import MATH, Token, tokenize
from workings.problems.documents.words import ROLE_WORDS

MAX_FORMULA_LINE = 60  # a longer line without a relation is prose
# A caption ends at these: "the softmax is α_1 = …, so z_1 = …".
_ASIDE = re.compile(  # softmax (row-wise) = …
    r"\s\((?:row|column|per|each|rounded|approx|over|along|zeilen|spalten|gerundet|pro|je|par|por"
    r"|arrondi|redondead|按|逐)[^()\ue000]{0,40}\)\s*(?=[=≈:])",
    re.IGNORECASE,
)
_CONSEQUENCES = frozenset(
    ["so", "thus", "hence", "therefore", "somit", "daher", "damit", "folglich", "donc", "ainsi",
     "luego", "entonces", "así", "所以", "因此"]
)  # fmt: skip
_WIDTH = re.compile(r"[dn](?:_?\{?(?:k|model|v|h|head)\}?)?", re.IGNORECASE)
_ASSIGNED = re.compile(r"(?:^|\v)\s*([A-Za-z]\w+)\s*=(?!=)")


@dataclass
class Run:
    """A stretch of mathematics, with the words before it in its line and where it stands."""

    tokens: list[Token]
    caption: str
    line: int
    place: Place
    joins: bool  # only line ends or spaces are between it and the run before
    last_line: int = -1

    def __post_init__(self) -> None:
        self.last_line = max(self.last_line, self.line)


def find_runs(source: Source) -> list[Run]:
    """Return the runs of a document in order."""
    scanner = _RunScanner()
    variables = {
        name
        for line in source.lines
        if line.is_code
        for name in _ASSIGNED.findall(line.text)
        if name.lower() not in ROLE_WORDS
    }
    for number, line in enumerate(source.lines):
        if line.level:
            scanner.joins = False
            if not any(sign in line.text for sign in "=≈\ue000"):
                continue
        has_relation = any(sign in line.text for sign in "=≈~:\ue000←")
        if has_relation or len(line.text) <= MAX_FORMULA_LINE:
            known = variables if line.is_code else ()
            scanner.scan(tokenize(_ASIDE.sub(" ", line.text), known), number, line.place)
        else:
            scanner.joins = False  # prose
    return scanner.runs


class _RunScanner:
    """Collects the runs of lines, with the words before each of them."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.joins = False  # nothing but line ends is between the last run and what follows
        self._tokens: list[Token] = []
        self._caption, self._depth = "", 0

    def scan(self, tokens: list[Token], number: int, place: Place) -> None:
        """Add the runs of a line."""
        words: list[str] = []
        for k, token in enumerate(tokens):
            is_listed = self._depth > 0 and token.kind == "punct" and token.text in ",;"
            is_label = token.text == ":" and token.kind == "punct"
            is_after_break = k > 0 and tokens[k - 1].kind == "break" and not self._tokens
            if is_label and is_after_break and _is_last(tokens, k):
                self._resume(number)  # $X$: and its matrix in the next line
            is_label = is_label and (
                _is_value_next(tokens, k) or (bool(self._tokens) and _is_last(tokens, k))
            )
            if token.kind in MATH or is_listed or is_label:
                if not self._tokens:
                    self._caption = " ".join(words)
                self._tokens.append(Token("rel", ":") if is_label else token)
                self._depth += (token.kind == "open") - (token.kind == "close")
                self._depth = max(self._depth, 0)
            elif token.kind == "break" and self._tokens and _leads_to_value(tokens, k):
                self._tokens.append(Token("rel", "="))
            elif token.kind == "break":
                if not self._depth or k + 1 == len(tokens):
                    self._end(number, place)
            else:
                self._end(number, place)
                self.joins = False
                is_end = token.kind == "punct" and token.text in ".;!?"
                if is_end or (token.kind == "word" and token.text.lower() in _CONSEQUENCES):
                    words = []
                elif token.kind == "word":
                    words.append(token.text)
                elif token.text == ",":
                    words = words[-12:]
        self._end(number, place)

    def _resume(self, number: int) -> None:
        """Continue the run that a break has ended in this line."""
        if self.joins and self.runs and self.runs[-1].line == number:
            run = self.runs.pop()
            self._tokens, self._caption, self.joins = run.tokens, run.caption, run.joins

    def _end(self, number: int, place: Place) -> None:
        if self._tokens:
            self.runs.append(Run(self._tokens, self._caption, number, place, self.joins))
            self.joins = True
        self._tokens, self._depth = [], 0


def _is_last(tokens: list[Token], k: int) -> bool:
    return all(token.kind == "break" for token in tokens[k + 1 :])


def _leads_to_value(tokens: list[Token], k: int) -> bool:
    """Return True for an arrow right before a matrix: softmax → [0.3, 0.7]."""
    is_arrow = tokens[k].text not in ("\v", "|", "│", "¦", "•")
    return is_arrow and k + 1 < len(tokens) and tokens[k + 1].kind == "grid"


def _is_value_next(tokens: list[Token], k: int) -> bool:
    after = next((token for token in tokens[k + 1 :] if token.kind != "break"), None)
    return after is not None and after.kind == "grid"


def join_runs(runs: Sequence[Run]) -> list[Run]:
    """Join a run that begins with a relation to the runs before it, as far back as they join."""
    joined: list[Run] = []
    for run in runs:
        previous = joined[-1] if joined else None
        is_continuation = (
            run.tokens[0].kind == "rel" and len(run.tokens) > 1 and run.tokens[0].text != ":"
        )
        awaits = previous is not None and previous.tokens[-1].kind == "rel"
        if (
            previous is not None
            and is_continuation
            and run.joins
            and (run.line - previous.last_line) <= 8
        ):
            parts = [joined.pop()]
            while (
                not any(token.kind == "rel" for token in parts[0].tokens)
                and parts[0].joins
                and joined
                and (
                    (_is_formula_part(parts[0]) and not _is_complete(joined[-1], parts[0]))
                    or _is_next_factor(joined[-1], parts[0], run)
                )
                and parts[0].line - joined[-1].last_line <= 2
            ):
                parts.insert(0, joined.pop())
            tokens = [token for part in parts for token in part.tokens]
            joined.append(replace(parts[0], tokens=[*tokens, *run.tokens], last_line=run.line))
        elif (
            previous is not None
            and awaits
            and _is_awaited(previous, run)
            and run.line - previous.last_line <= 6
            and (run.joins or run.tokens[0].kind == "grid")
        ):
            joined[-1] = replace(
                previous, tokens=[*previous.tokens, *run.tokens], last_line=run.line
            )
        elif previous is not None and _is_value_below(previous, run):
            joined[-1] = replace(
                previous,
                tokens=[*previous.tokens, Token("rel", "="), *run.tokens],
                last_line=run.line,
            )
        elif run.tokens == [Token("rel", "=")] and previous is not None and run.joins:
            parts = [joined.pop()]
            while (
                not any(token.kind == "rel" for token in parts[0].tokens)
                and parts[0].joins and joined and _is_formula_part(parts[0])
            ):  # fmt: skip
                parts.insert(0, joined.pop())
            tokens = [token for part in parts for token in part.tokens]
            joined.append(replace(parts[0], tokens=[*tokens, *run.tokens], last_line=run.line))
        elif previous is not None and run.joins and _is_next_factor(previous, run):
            joined[-1] = replace(
                previous, tokens=[*previous.tokens, *run.tokens], last_line=run.line
            )
        else:
            joined.append(run)
    return joined


def _is_next_factor(previous: Run, run: Run, following: Run | None = None) -> bool:
    """Return True for a matrix that multiplies the one before a line end: = [A], then [V] = …"""
    after = [*run.tokens, *(following.tokens if following is not None else [])]
    kinds = [token.kind for token in (*previous.tokens[-2:], *after[:2])]
    is_product = kinds == ["rel", "grid", "grid", "rel"] and run.line - previous.last_line <= 2
    return is_product or (previous.tokens[-1].text in ("×", "*", "·") and after[0].kind == "grid")


def _is_awaited(previous: Run, run: Run) -> bool:
    """Return True if a run completes one that ends with a relation; a colon awaits a matrix.

    "d_model = 4:" is complete.
    """
    kinds = [token.kind for token in previous.tokens]
    if kinds == ["sym", "rel", "num", "rel"] and _WIDTH.fullmatch(previous.tokens[0].text):
        return False
    return previous.tokens[-1].text != ":" or run.tokens[0].kind == "grid"


def _is_value_below(previous: Run, run: Run) -> bool:
    """Return True for a matrix alone in the line below Z = A V, an equation that fills its line."""
    is_alone = len(run.tokens) == 1 and run.tokens[0].kind == "grid" and run.joins
    if not is_alone or previous.caption or not 0 < run.line - previous.last_line <= 2:
        return False
    kinds = [token.kind for token in previous.tokens]
    is_equation = kinds.count("rel") == 1 and "grid" not in kinds and kinds[0] in ("sym", "func")
    right = previous.tokens[kinds.index("rel") + 1 :] if is_equation else []
    return len(right) > 1 and any(token.kind in ("sym", "func") for token in right)


def _is_complete(run: Run, following: Run) -> bool:
    """Return True for an equation that ends with a matrix in a line before the following run."""
    kinds = [token.kind for token in run.tokens[-2:]]
    return kinds == ["rel", "grid"] and run.last_line < following.line


def _is_formula_part(run: Run) -> bool:
    return not any(token.kind == "grid" for token in run.tokens) and len(run.tokens) < 12
