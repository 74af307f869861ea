"""Split what a document says into worked examples.

An example ends where a given is redefined, where a step is printed again with other numbers or
after its givens are restated, where a given appears that printed steps depend on, and where the
kind of problem changes. The givens of an example hold for the next one until they are redefined.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from workings.problems.documents.attention_names import AttentionNames, format_canonical
from workings.problems.documents.chains import Statement
from workings.problems.documents.dot_products import DOT_PRODUCT
from workings.problems.documents.entries import Entry, get_numbers, get_symbol, is_scalar
from workings.problems.documents.layer_names import NAMES, LayerNames
from workings.problems.documents.matrices import Rows
from workings.problems.documents.sources import Place, Source
from workings.problems.documents.symbols import Symbol
from workings.problems.documents.words import find_kinds, hides_later_tokens
from workings.problems.kinds import KINDS
from workings.problems.numbers import read_number
from workings.problems.reprints import count_differences, is_reprint

_ALL_STEPS = {
    "Q",
    "K",
    "V",
    "scores",
    "scaled",
    "masked",
    "exponentials",
    "sums",
    "weights",
    "mixed",
    "output",
}
_AFTER = {
    "X": _ALL_STEPS,
    "context": _ALL_STEPS,
    "mask": {"masked", "exponentials", "sums", "weights", "mixed", "output"},
    "W_Q": {"Q", "scores", "scaled", "masked", "weights", "mixed", "output"},
    "W_K": {"K", "scores", "scaled", "masked", "weights", "mixed", "output"},
    "W_V": {"V", "mixed", "output"},
    "W_O": {"output"},
}
_GIVEN = {
    "attention": {"X", "context", "mask", *(f"{x}_{p}" for x in "Wb" for p in "QKVO")},
    "layer_norm": {"X", "gamma", "beta", "eps"},
    "rms_norm": {"X", "gamma", "eps"},
    "positions": {"width", "base", "count"},
    "feed_forward": {"X", "W_1", "b_1", "W_2", "b_2"},
}
_RECURRENT_GIVEN = re.compile(r"X|h0|c0|[WUb]_?\w*")
_NORM_WORDS = frozenset({"mean", "variance", "var", "gamma", "beta", "normalised", "normalized"})
_EVIDENCE = {
    "rnn": r"[wW]_(?:x|h|xh|hh|hx|ih)",
    "lstm": r"[WUbw]_[xh]?[ifogc]",
    "gru": r"[WUbw]_[xh]?[zrn]",
}


def is_given(kind: str, role: str) -> bool:
    """Return True if a role is given, rather than computed."""
    if kind in _GIVEN:
        return role in _GIVEN[kind]
    if kind in NAMES:
        return bool(_RECURRENT_GIVEN.fullmatch(role))
    return kind in KINDS and role in KINDS[kind].matrices


@dataclass
class Example:
    """The entries of one worked example, and the givens that it takes over from the one before."""

    kind: str
    entries: list[Entry] = field(default_factory=list)
    inherited: list[Entry] = field(default_factory=list)
    sections: list[int] = field(default_factory=list)
    bare: list[Statement] = field(default_factory=list)  # numbers without a name
    formulas: list[Statement] = field(default_factory=list)  # statements without numbers
    names: AttentionNames | None = None
    by_key: dict["EntryKey", list[Entry]] = field(default_factory=dict)  # the latest few of a chunk

    def add_entries(self, entries: Sequence[Entry]) -> None:
        """Add entries; of each key a few are kept at hand, to find redefinitions in time."""
        self.entries += entries
        for entry in entries:
            self.by_key[_key(entry)] = [*self.by_key.get(_key(entry), [])[-3:], entry]

    def leave_out(self) -> None:
        """Keep all numbers as numbers without a name."""
        unique = {id(s): s for s in (*(e.statement for e in self.entries), *self.bare)}
        self.bare, self.entries, self.inherited = list(unique.values()), [], []

    @property
    def identities(self) -> set[str]:
        """The weights that are stated to be the identity: W_Q = W_K = I, q_1 = x_1."""
        names: set[str] = set()
        for statement in self.formulas:
            texts = [format_canonical(element) for element in statement.elements]
            if texts and texts[-1] in ("I", "I_n", "I_d"):
                names |= {f"W_{text[-1].upper()}" for text in texts[:-1] if text}
            elif len(texts) > 1 and texts[-1] in ("x", "X"):
                names |= {f"W_{text.upper()}" for text in texts[:-1] if text.upper() in "QKV"}
        return names

    @property
    def claims(self) -> list[Entry]:
        """The entries that are computed, unless they must be given (Q, K and V without X)."""
        return [entry for entry in self.entries if not is_given(self.kind, entry.role)]

    def list_givens(self) -> list[Entry]:
        """Return the entries that the next example takes over."""
        own = [
            e
            for e in self.entries
            if e.role != "mask"
            and e.evidence != DOT_PRODUCT
            and (is_given(self.kind, e.role) or self._is_source(e))
        ]
        return [*self.list_valid_inherited(), *own]

    def list_valid_inherited(self) -> list[Entry]:
        """Return the inherited givens that this example does not state again."""
        stated = {entry.key for entry in self.entries if not entry.is_factor}
        roles = {role for role, _ in stated}
        has_weights = any(role.startswith(("W_", "U_")) for role in roles)
        if "X" in roles and (has_weights or self.kind in ("layer_norm", "rms_norm")):
            return []  # all of them are stated again
        return [e for e in self.inherited if e.key not in stated and self.kind != "positions"]

    def _is_source(self, entry: Entry) -> bool:
        """Return True for Q, K and V of an example without X."""
        has_x = any(e.role == "X" for e in (*self.entries, *self.inherited))
        return self.kind == "attention" and entry.role in ("Q", "K", "V") and not has_x


EntryKey = tuple[str, int | None, int | None, int | None]


def _key(entry: Entry) -> EntryKey:
    return entry.role, entry.part, entry.row, entry.column


def split_examples(
    source: Source, statements: Sequence[Statement], kind: str | None = None
) -> list[Example]:
    """Return the examples of a document, with every entry named; `kind` is of all, if given."""
    headings = _collect_headings(source)
    texts = _collect_texts(source, len(headings))
    kinds = [kind] * len(statements) if kind else _choose_kinds(statements, headings, texts)
    attention = AttentionNames(
        [s for s, kind in zip(statements, kinds, strict=True) if kind == "attention"],
        source.grids,
        headings,
    )
    of_kind = list(zip(kinds, statements, strict=True))
    layers = {
        kind: LayerNames(kind, headings, [s for k, s in of_kind if k == kind], source.grids)
        for kind in set(kinds) - {"attention"}
        if kind in KINDS
    }
    builder = _ExampleBuilder({k for k, text in enumerate(texts) if hides_later_tokens(text)})
    for statement, own_kind in zip(statements, kinds, strict=True):
        if own_kind == "attention":
            entries = attention.resolve(statement)
        else:
            entries = layers[own_kind].resolve(statement) if own_kind in layers else []
        builder.add(own_kind, statement, entries)
    builder.end_section()
    for example in builder.examples:
        example.names = attention
    return builder.examples


def _collect_headings(source: Source) -> list[str]:
    headings = [""]
    for line in source.lines:
        if line.level:
            headings.append(line.text)
    return headings


def _collect_texts(source: Source, count: int) -> list[str]:
    texts: list[list[str]] = [[] for _ in range(count)]
    section = 0
    for line in source.lines:
        section += line.level > 0
        texts[section].append(line.text)
    return ["\n".join(lines) for lines in texts]


def _choose_kinds(
    statements: Sequence[Statement], headings: Sequence[str], texts: Sequence[str]
) -> list[str]:
    """Return the kind of problem that each statement is about."""
    votes = [_vote(statement) for statement in statements]
    by_section: dict[int, list[int]] = {}
    for k, statement in enumerate(statements):
        by_section.setdefault(statement.section, []).append(k)
    for section, members in by_section.items():
        if "rms_norm" in find_kinds(f"{headings[section]} {texts[section]}"):
            _rename_norm([statements[k] for k in members], [votes[k] for k in members])
    kinds = [""] * len(statements)
    previous = ""
    inputs: list[int] = []
    for section, members in by_section.items():
        counts: dict[str, float] = {}
        for k in members:
            for kind, weight in votes[k].items():
                counts[kind] = counts.get(kind, 0) + weight
        for kind in counts:
            counts[kind] += 1.0 * (kind in find_kinds(headings[section]))
            counts[kind] += 0.5 * (kind in find_kinds(texts[section]))
        for kind in find_kinds(headings[section]) & {"positions", "layer_norm", "rms_norm"}:
            if any(statements[k].value is not None for k in members):
                counts[kind] = counts.get(kind, 0) + 1.0
        if not counts:
            spoken = find_kinds(headings[section]) or find_kinds(texts[section])
            only = next(iter(spoken)) if len(spoken) == 1 else "attention"
            for k in members:
                kinds[k] = previous or only
            if previous and not spoken and all(statements[k].text[:1] in "xX" for k in members):
                inputs += members  # of what comes next
            continue
        _unite_recurrent(counts, [votes[k] for k in members], previous)
        strong = {kind for kind, count in counts.items() if count >= 2} or set(counts)
        best = max(strong, key=lambda kind: (counts[kind], kind == previous))
        if previous and (counts[best] < 1.5 or counts.get(previous, 0) >= counts[best]):
            best = previous
        _spread(
            members,
            votes,
            {k for k in strong if k != best and counts[k] >= 3},
            best,
            kinds,
            statements,
        )
        previous = kinds[members[-1]]
        for k in inputs:
            kinds[k] = kinds[members[0]]
        inputs = []
    return kinds


def _rename_norm(statements: Sequence[Statement], votes: Sequence[dict[str, float]]) -> None:
    """Make the votes of a section for a layer norm speak for RMSNorm, in place, without a mean."""
    symbols = [symbol for s in statements if (symbol := get_symbol(s)) is not None]
    if any(symbol.base in ("μ", "mean", "variance", "var") for symbol in symbols):
        return
    for vote in votes:
        if "layer_norm" in vote:
            vote["rms_norm"] = vote.pop("layer_norm")


def _unite_recurrent(
    counts: dict[str, float], votes: Sequence[dict[str, float]], previous: str
) -> None:
    """Make the votes of a section for recurrent networks speak for one of them, in place.

    An LSTM has a tanh and an h as a plain network has, and z is a gate of a GRU.
    """
    present = [kind for kind in _EVIDENCE if kind in counts]
    if len(present) < 2 and present != ["rnn"]:
        return
    gated = max(("lstm", "gru"), key=lambda kind: counts.get(kind, 0))
    kind = previous if previous in ("lstm", "gru") and counts.get(gated, 0) < 3 else gated
    if counts.get(kind, 0) < 3 and kind != previous:
        return
    if counts.get("rnn", 0) >= 3 + 2 * counts.get(kind, 0):
        return  # the weights of a plain network
    counts[kind] = sum(counts.pop(other) for other in present)
    for vote in votes:
        own = [vote.pop(other) for other in _EVIDENCE if other in vote]
        if own:
            vote[kind] = sum(own)


def _spread(
    members: list[int],
    votes: list[dict[str, float]],
    others: set[str],
    best: str,
    kinds: list[str],
    statements: Sequence[Statement],
) -> None:
    """Give each statement of a section its kind; one without a vote follows its neighbours."""
    current = None
    for k in members:
        own = max(votes[k], key=lambda kind: votes[k][kind], default=None)
        if own is not None and (own in others or own == best):
            current = own
        kinds[k] = current or ""
    following = best
    for k in reversed(members):
        is_input = statements[k].text[:1] in "xX" and not votes[k]
        own = max(votes[k], key=lambda kind: votes[k][kind], default=None)
        if own is not None and (own in others or own == best):
            following = own
        if not kinds[k] or (is_input and others):
            kinds[k] = following


def _vote(statement: Statement) -> dict[str, float]:
    """Return how much a statement speaks for each kind."""
    votes: dict[str, float] = {}

    def add(kind: str, weight: float = 1.0) -> None:
        votes[kind] = votes.get(kind, 0) + weight

    left = statement.elements[0] if statement.elements else ()
    has_value = statement.value is not None or bool(statement.problem)
    for element in statement.elements:
        for token in element:
            text = token.text.lower()
            if token.kind == "func" and text == "softmax":
                add("attention", 2.0)
            elif token.kind == "func" and text in ("relu", "gelu"):
                add("feed_forward", 1.0)
            elif token.kind == "func" and text == "tanh" and has_value:
                add("rnn", 0.6)
            elif element is not left and token.symbol is not None and _is_layer(token.symbol):
                add("feed_forward", 0.6)
    symbol = left[0].symbol if left and left[0].kind in ("sym", "func") else None
    if symbol is None or not has_value:
        return votes
    name, numbers = symbol.name, get_numbers(symbol)
    if re.fullmatch(r"[QKV]|W_[QKVOqkvo]|b_[QKVO]|[qkv]", name) and not (
        name == "W_o" and is_scalar(statement.value)
    ):
        add("attention")
    if _is_layer(symbol):
        add("feed_forward")
    if symbol.base in ("μ",) or (symbol.base == "σ" and "2" in symbol.index):
        add("layer_norm", 2.0)
    if symbol.base in ("x\u0302", "γ", "β"):
        add("layer_norm")
    if symbol.base.lower() in ("rms", "ms"):
        add("rms_norm", 2.0)
    if symbol.base.lower() in _NORM_WORDS or name in ("x_hat", "x_norm"):
        add("layer_norm", 1.5)
    if symbol.base.lower() == "pe":
        add("positions", 2.0)
    for kind, pattern in _EVIDENCE.items():
        if re.fullmatch(pattern, name) and (
            kind != "lstm" or name not in ("W_o", "b_o") or is_scalar(statement.value)
        ):
            add(kind, 1.5)
    if numbers and symbol.base in ("i", "f", "o", "g"):
        add("lstm")
    if symbol.base in ("c\u0303", "C\u0303"):
        add("lstm")
    if numbers and symbol.base == "r" and is_scalar(statement.value):
        add("gru", 0.7)
    if symbol.base == "h\u0303":
        add("gru")
    if numbers and symbol.base == "h":
        add("rnn", 0.3)
    return votes


def _is_layer(symbol: Symbol) -> bool:
    """Return True for W_1, b_1, W_2 and b_2."""
    is_weight = symbol.base in ("W", "b") and not symbol.marks
    return is_weight and get_numbers(symbol) in ((1,), (2,))


class _ExampleBuilder:
    """Adds entries to examples, and begins a new one where they do not fit together."""

    def __init__(self, masked: Collection[int] = ()) -> None:
        self.examples: list[Example] = []
        self._masked = masked  # sections that say that later tokens are hidden
        self._last: dict[str, Example] = {}  # of each kind
        self._chunk: Example | None = None

    def add(self, kind: str, statement: Statement, entries: list[Entry]) -> None:
        """Add the entries of a statement."""
        chunk = self._chunk
        is_same = chunk is not None and chunk.kind == kind and chunk.sections == [statement.section]
        if chunk is None or not is_same or any(_changes(chunk, entry) for entry in entries):
            self.end_section()
            self._chunk = chunk = Example(kind, sections=[statement.section])
        repeated = [entry for entry in entries if _is_ambiguous(chunk, entry)]
        if repeated:
            entries = [entry for entry in entries if entry not in repeated]
            chunk.bare += [entry.statement for entry in repeated]
        chunk.add_entries(entries)
        if statement.value is None and not statement.problem:
            chunk.formulas.append(statement)
        elif not entries and not repeated:
            chunk.bare.append(statement)

    def end_section(self) -> None:
        """Join the entries since the last call to the current example, or begin a new one."""
        chunk, self._chunk = self._chunk, None
        if chunk is None:
            return
        current = self._last.get(chunk.kind)
        if current is not None and _is_stray(current, chunk):
            current.bare += [entry.statement for entry in chunk.entries]
            chunk.entries = []
        is_last = current is not None and self.examples and self.examples[-1] is current
        if current is None or (chunk.entries and (not is_last or self._conflict(current, chunk))):
            if not chunk.entries:
                if self.examples:
                    self.examples[-1].bare += chunk.bare
                else:
                    self._orphans(chunk)
                return
            chunk.inherited = current.list_givens() if current is not None else []
            self.examples.append(chunk)
            self._last[chunk.kind] = chunk
            return
        if not current.claims:  # givens that are redefined before they are used
            keys = {_key(e) for e in chunk.entries if e.rows is not None and not e.is_factor}
            current.entries = [e for e in current.entries if _key(e) not in keys]
        current.entries += chunk.entries
        current.bare += chunk.bare
        current.formulas += chunk.formulas
        if chunk.entries or chunk.bare:
            current.sections += [s for s in chunk.sections if s not in current.sections]

    def _conflict(self, current: Example, chunk: Example) -> bool:
        """Return True if a section begins another example: a mask is new, or numbers differ."""
        is_masked = [any(s in self._masked for s in e.sections) for e in (current, chunk)]
        return _conflict(current, chunk, is_masked_anew=is_masked == [False, True])

    def _orphans(self, chunk: Example) -> None:
        """Keep numbers before the first example, to tell that they were not read."""
        self.examples.append(chunk)


def _is_stray(current: Example, chunk: Example) -> bool:
    """Return True for one matrix that words call keys or values after the weights of an example."""
    names = {entry.role for entry in chunk.entries}
    return (
        len(names) == 1
        and names <= {"K", "V"}
        and all(entry.evidence == "caption" for entry in chunk.entries)
        and any(entry.role == "weights" for entry in current.entries)
    )


def _is_ambiguous(chunk: Example, entry: Entry) -> bool:
    """Return True for a step that a letter names which has named other numbers before."""
    if chunk.kind != "attention" or entry.evidence != "letter" or entry.rows is None:
        return False
    if is_given(chunk.kind, entry.role) or entry.role in ("Q", "K", "V") or entry.row is not None:
        return False
    return any(
        _key(other) == _key(entry)
        and other.rows is not None
        and not other.is_factor
        and not is_print_of(other.rows, entry.rows)
        for other in chunk.by_key.get(_key(entry), [])
        if not _is_unstacked(chunk.kind, entry)
    )


def _changes(chunk: Example, entry: Entry) -> bool:
    """Return True if an entry redefines something inside one section."""
    if entry.rows is None or (entry.is_factor and entry.role != "X"):
        return False
    others = chunk.by_key.get(_key(entry), [])
    if entry.is_factor and any(not other.is_factor for other in others):
        return False
    for other in others:
        is_print = not other.is_factor or other.role == "X"
        if _key(other) == _key(entry) and is_print and other.rows is not None:
            if _is_unstacked(chunk.kind, entry):
                return False
            is_step = not is_given(chunk.kind, entry.role)
            if is_step and entry.evidence == "letter" and chunk.kind == "attention":
                return False  # one letter for two steps: the numbers will tell
            if is_step and _shape(other.rows) != _shape(entry.rows):
                return False  # one of them is garbled
            if not is_print_of(other.rows, entry.rows):
                return bool(chunk.claims) or is_given(chunk.kind, entry.role)
    return False


def _is_unstacked(kind: str, entry: Entry) -> bool:
    """Return True for a row or number of a matrix that is printed one after the other."""
    rows = entry.rows or []
    is_row = kind == "attention" and len(rows) == 1 and entry.row is None
    return is_row and not is_given(kind, entry.role)


def is_print_of(one: Rows, other: Rows) -> bool:
    """Return True for two prints of the same numbers, one perhaps with fewer decimals."""
    if _shape(one) != _shape(other):
        return False
    return is_reprint(one, other) or _is_rounded_again(one, other)


def _shape(rows: Rows) -> tuple[int, int]:
    return len(rows), len(rows[0])


def _is_rounded_again(one: Rows, other: Rows) -> bool:
    """Return True if one print is the other with fewer decimals."""
    for row, other_row in zip(one, other, strict=True):
        for cell, other_cell in zip(row, other_row, strict=True):
            a, b = read_number(cell, ""), read_number(other_cell, "")
            if a is None or b is None or a.places is None or b.places is None:
                continue
            if abs(a.value - b.value) > 0.51 * 10.0 ** -min(a.places, b.places):
                return False
    return True


def _conflict(current: Example, chunk: Example, *, is_masked_anew: bool) -> bool:
    """Return True if the entries of a section do not belong to the example before it."""
    known = {_key(e): e for e in current.list_valid_inherited()}
    known |= {
        _key(e): e
        for e in sorted(current.entries, key=lambda e: not e.is_factor)
        if e.rows is not None and (not e.is_factor or e.role == "X")
    }
    claimed = {e.key for e in current.claims if not e.is_factor}
    steps = {role for role, _ in claimed}
    restated = repeated = False
    for entry in chunk.entries:
        if entry.is_factor and entry.role != "X":
            continue
        given = is_given(current.kind, entry.role)
        before = known.get(_key(entry))
        if given and claimed and before is None and _is_in_other_form(entry, known):
            return True
        if given and before is not None and before.rows is not None and entry.rows is not None:
            if not is_print_of(before.rows, entry.rows) or count_differences(
                before.rows, entry.rows
            ):
                if claimed and not (entry.is_factor and is_print_of(before.rows, entry.rows)):
                    return True
            elif not entry.is_factor:
                restated = True
        elif given and steps & _AFTER.get(entry.role, set()) and entry.part is None:
            return True
        elif not given and entry.key in claimed:
            if _is_unstacked(chunk.kind, entry) and _has_room(current, chunk, entry.key):
                continue
            if before is None or before.rows is None or entry.rows is None:
                repeated = repeated or (entry.key in claimed and entry.row is None)
            elif not is_print_of(before.rows, entry.rows):
                return True
            else:
                repeated = True
    has_unstacked = any(
        _is_unstacked(chunk.kind, e)
        and e.key in claimed
        and not e.is_factor
        and not _has_room(current, chunk, e.key)
        for e in chunk.claims
    )
    return repeated and (restated or has_unstacked or is_masked_anew)


def _has_room(current: Example, chunk: Example, key: tuple[str, int | None]) -> bool:
    """Return True if all rows of a step that are printed one by one belong to different tokens."""
    rows = [
        len(entry.rows or [])
        for entry in (*current.entries, *chunk.entries)
        if entry.key == key and not entry.is_factor
    ]
    tokens = [
        len(entry.rows) if entry.row is None else entry.row + 1
        for entry in (*current.inherited, *current.entries)
        if entry.role in ("X", "Q") and entry.rows is not None and not entry.is_factor
    ]
    return sum(rows) <= max(tokens, default=0)


def _is_in_other_form(entry: Entry, known: Mapping[EntryKey, Entry]) -> bool:
    """Return True if a given that was printed by rows is now one matrix, or the other way round."""
    return not entry.is_factor and any(
        (role, part) == entry.key and (row is None) != (entry.row is None)
        for role, part, row, _ in known
    )


def find_place(example: Example, source: Source) -> Place:
    """Return where an example begins: its first given, or the section of its first number."""
    givens = [e for e in example.entries if is_given(example.kind, e.role) and not e.is_factor]
    has_x = any(e.role == "X" for e in (*example.entries, *example.inherited))
    if example.kind == "attention" and not has_x:
        givens += [e for e in example.entries if e.role in ("Q", "K", "V") and not e.is_factor]
        if any(e.role in ("Q", "K", "V") for e in example.inherited):
            givens = [e for e in givens if is_given(example.kind, e.role)]
        if not any(e.role in ("Q", "K") for e in (*example.entries, *example.inherited)):
            givens += [e for e in example.entries if e.role == "scores" and not e.is_factor]
    entries: Iterable[Entry] = givens or example.entries
    first = min(entries, key=lambda entry: entry.statement.line, default=None)
    if first is None:
        return source.lines[0].place if source.lines else 1
    has_givens = any(is_given(example.kind, entry.role) for entry in example.entries)
    if not givens and not has_givens:
        section = 0
        for line in source.lines:
            section += line.level > 0
            if section == first.statement.section:
                return line.place
    grid = first.statement.value_grid
    return source.grids[grid].place if grid >= 0 else first.statement.place
