"""Generated documents: right numbers in many notations are never wrong, and no name is dropped."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from workings.errors import UserError
from workings.problems.documents.reading import read_problem

Matrix = np.ndarray
ENVIRONMENTS = ("bmatrix", "pmatrix", "Bmatrix", "smallmatrix", "matrix", "array")
PLAIN_STYLES = ("list", "np.array", "tensor", "print", "matlab")
LATEX_SEPARATORS = (
    " ", "~", r"\hspace{1cm}", r"\hfill ", r" \enspace ", r"\quad ", ", ", "; ", r"\;", r"\,",
    r"\ ", r" \text{ and } ", r" \Rightarrow ", ". ", r"\\ ", "\n", "$ and $", "$; $", "$$ $$",
    "\t", r" & ", "$, so that $", "$\n\nHence $", r"~,\qquad ", "\u2003",
)  # fmt: skip
PLAIN_SEPARATORS = (
    " ", "\t", " | ", "; ", ", ", "\n", "\n\n", " and ", ". ", " -> ", " • ", ", then ",
)  # fmt: skip
LETTERS = (
    "X Q K V W_Q W_K W_V W_O S R A Z Y",
    "X Q K V W_q W_k W_v W_o A B A' O Y",
    "H Q K V W^Q W^K W^V W^O P R E C O",
    "E Q K V W_{Q} W_{K} W_{V} W_{O} L L' P H O",
    "X Q K V W_Q W_K W_V W_O S S S Z Y",
)
NAMES = "X Q K V W_Q W_K W_V W_O scores scaled weights mixed output".split()  # noqa: SIM905
GIVEN = ("X", "W_Q", "W_K", "W_V", "W_O", "mask")


@dataclass
class Document:
    """The text of a document and the roles of the matrices in it."""

    text: str = ""
    roles: list[str] = field(default_factory=list)


class DocumentWriter:
    """Solves a random problem in plain numpy and writes it in a random notation."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)  # noqa: S311
        self.numbers = np.random.default_rng(seed)
        self.is_latex = rng.random() < 0.6
        self.style = rng.choice(ENVIRONMENTS if self.is_latex else PLAIN_STYLES)
        self.separators = LATEX_SEPARATORS if self.is_latex else PLAIN_SEPARATORS
        self.letters = dict(zip(NAMES, rng.choice(LETTERS).split(), strict=True))
        self.columns = rng.random() < 0.3
        self.decimals = rng.choice([2, 3, 4])
        self.mask = rng.choice(["none", "none", "causal", "padding"])
        self.scale = rng.choice(["sqrt", "sqrt", "none", "d_k"])
        self.given_decimals = rng.choice([0, 1])

    def draw(self, rows: int, columns: int) -> Matrix:
        return np.round(self.numbers.uniform(-1.2, 1.6, (rows, columns)), self.given_decimals) + 0.0

    def write(self, change: Callable[[str, Matrix], Matrix]) -> Document:
        """Write the document; `change` may change the numbers of a role."""
        document, separator = Document(), self.rng.choice(self.separators)
        for role, name, formula, matrix in self.list_statements():
            changed = change(role, matrix.T if self.columns else matrix)
            decimals = self.given_decimals if role in GIVEN else self.decimals
            body = self.format_matrix(changed, 0 if role == "mask" else decimals)
            equals = "&=" if separator == " & " else "="
            chain = f"{name} {equals} {formula} = {body}" if formula else f"{name} {equals} {body}"
            document.text += (separator if document.roles else "") + chain
            document.roles.append(role)
        if self.is_latex:
            document.text = f"${document.text}$"
        return document

    def list_statements(self) -> list[tuple[str, str, str, Matrix]]:
        """Return role, name, formula and matrix of every statement."""
        n, d, k, v = (self.rng.randint(2, 3) for _ in range(4))
        shapes = {"X": (n, d), "W_Q": (d, k), "W_K": (d, k), "W_V": (d, v), "W_O": (v, d)}
        env = {name: self.draw(*shape) for name, shape in shapes.items()}
        for step in "QKV":
            env[step] = env["X"] @ env[f"W_{step}"]
        env["scores"] = env["Q"] @ env["K"].T
        env["scaled"] = env["scores"] / {"sqrt": k**0.5, "d_k": k, "none": 1}[self.scale]
        allowed = np.ones((n, n), dtype=bool)
        if self.mask == "causal":
            allowed = np.tril(allowed)
        elif self.mask == "padding":
            allowed[:, -1] = False
        env["mask"] = np.where(allowed, 0, -np.inf)
        weights = np.exp(env["scaled"]) * allowed
        env["weights"] = weights / weights.sum(1, keepdims=True)
        env["mixed"] = env["weights"] @ env["V"]
        env["output"] = env["mixed"] @ env["W_O"]
        return [
            (role, self.letters.get(role, "M"), self.format_formula(role, k), env[role])
            for role in self.choose_roles()
        ]

    def choose_roles(self) -> list[str]:
        roles = ["X", "W_Q", "W_K", "W_V"]
        has_output = self.rng.random() < 0.4
        roles += ["W_O"] if has_output else []
        roles += ["mask"] if self.mask != "none" and self.rng.random() < 0.5 else []
        steps = ["Q", "K", "V", "scores", *(["scaled"] if self.scale != "none" else [])]
        steps += ["weights", "mixed", *(["output"] if has_output else [])]
        is_kept = {"scores", "scaled", "weights"}  # their formulas name each other
        return roles + [s for s in steps if s in is_kept or self.rng.random() < 0.85]

    def format_formula(self, role: str, d_k: int) -> str:
        letter = self.letters
        if role in "QKV":
            return self.format_product(letter["X"], letter[f"W_{role}"])
        if role == "scores":
            transpose = r"^\top" if self.is_latex else self.rng.choice([".T", "^T"])
            query, key = letter["Q"], letter["K"] + transpose
            return self.join(key, query) if self.columns else self.join(query, key)
        if role == "scaled":
            divisor = f"sqrt({d_k})" if self.scale == "sqrt" else str(d_k)
            if self.is_latex:
                divisor = divisor.replace("sqrt(", r"\sqrt{").replace(")", "}")
                return rf"\frac{{{letter['scores']}}}{{{divisor}}}"
            return f"{letter['scores']} / {divisor}"
        if role == "weights":
            source = letter["scores" if self.scale == "none" else "scaled"]
            name = r"\text{softmax}" if self.is_latex else "softmax"
            return f"{name}({source}{' + M' if self.mask != 'none' else ''})"
        if role == "mixed":
            return self.format_product(letter["weights"], letter["V"])
        return self.format_product(letter["mixed"], letter["W_O"]) if role == "output" else ""

    def format_product(self, one: str, other: str) -> str:
        return self.join(other, one) if self.columns else self.join(one, other)

    def join(self, one: str, other: str) -> str:
        return f"{one} {other}" if self.is_latex else f"{one} @ {other}"

    def format_matrix(self, matrix: Matrix, decimals: int) -> str:
        rows = [[self.format_number(v, decimals) for v in row] for row in matrix]
        if self.is_latex:
            body = r" \\ ".join(" & ".join(row) for row in rows)
            if self.style == "array":
                spec = "c" * len(rows[0])
                return rf"\left[\begin{{array}}{{{spec}}} {body} \end{{array}}\right]"
            return rf"\begin{{{self.style}}} {body} \end{{{self.style}}}"
        if self.style == "matlab":
            return f"[{'; '.join(' '.join(row) for row in rows)}]"
        between = "  " if self.style == "print" else ", "
        ends = "\n " if self.style == "print" else ",\n "
        body = f"[{ends.join(f'[{between.join(row)}]' for row in rows)}]"
        return f"{self.style}({body})" if self.style in ("np.array", "tensor") else body

    def format_number(self, value: float, decimals: int) -> str:
        if np.isneginf(value):
            return r"-\infty" if self.is_latex else "-inf"
        text = f"{value:.{decimals}f}"
        return text.removeprefix("-") if float(text) == 0 else text


def keep(_: str, matrix: Matrix) -> Matrix:
    return matrix


@pytest.mark.parametrize("start", range(0, 120, 20))
def test_right_documents_are_not_wrong(start: int) -> None:
    for seed in range(start, start + 20):
        document = DocumentWriter(seed).write(keep)
        problem = read_problem(document.text)
        report = problem.check()
        assert report.verdict == "right", document.text
        roles = {*problem.sizes.given, *(claim.key for claim in problem.claims)}
        roles |= {"mask"} if "mask" in document.roles else set()
        assert roles == set(document.roles), document.text


@pytest.mark.parametrize("start", range(0, 60, 20))
def test_wrong_documents_are_not_right(start: int) -> None:
    for seed in range(start, start + 20):
        roles = DocumentWriter(seed).write(keep).roles
        claimed = [role for role in roles if role not in GIVEN]
        target = random.Random(seed).choice(claimed)  # noqa: S311

        def slip(role: str, matrix: Matrix, target: str = target) -> Matrix:
            wrong = matrix.copy()
            wrong[-1, -1] += 0.7 if role == target else 0
            return wrong

        document = DocumentWriter(seed).write(slip)
        try:
            report = read_problem(document.text).check()
        except UserError:
            continue  # no verdict
        assert report.verdict == "wrong", document.text
