"""What an author prints of a worked sheet: names, formulas, captions and rows, in order."""
# ruff: noqa: E501 - a scheme of letters has one line

from dataclasses import dataclass, field

import numpy as np

from sheets import Sheet, Worked

Rng = np.random.Generator
Rows = list[list[str]]
GATE_NAMES = {"i": "i", "f": "f", "g": "c", "o": "o"}
LETTERS = (
    {"scores": "S", "scaled": "S'", "masked": r"\tilde{S}", "weights": "A", "mixed": "Z", "output": "Y"},
    {"scores": "E", "scaled": "E_s", "masked": "E_m", "weights": r"\alpha", "mixed": "O", "output": "Y"},
    {"scores": "L", "scaled": "L'", "masked": "L''", "weights": "P", "mixed": "H", "output": "O"},
    {"scores": "S", "scaled": "S", "masked": "S", "weights": "A", "mixed": "Z", "output": "O"},
)  # fmt: skip
CAPTIONS = {
    "en": {
        "scores": "Dot products", "scaled": "Scaled scores", "masked": "Masked scores",
        "weights": "Attention weights", "mixed": "Weighted sum", "output": "Output",
    },
    "de": {
        "scores": "Skalarprodukte", "scaled": "Skaliert", "masked": "Maskiert",
        "weights": "Aufmerksamkeitsgewichte", "mixed": "Gewichtete Summe", "output": "Ausgabe",
    },
    "fr": {
        "scores": "Produits scalaires", "scaled": "Scores divisés", "masked": "Scores masqués",
        "weights": "Poids d'attention", "mixed": "Somme pondérée", "output": "Sortie",
    },
    "es": {
        "scores": "Productos escalares", "scaled": "Escalado", "masked": "Enmascarado",
        "weights": "Pesos de atención", "mixed": "Suma ponderada", "output": "Salida",
    },
    "zh": {
        "scores": "点积", "scaled": "缩放", "masked": "掩码后", "weights": "注意力权重",
        "mixed": "加权和", "output": "输出",
    },
}  # fmt: skip


@dataclass
class Item:
    """A printed matrix: its role, its name and formula in LaTeX, its caption and its rows."""

    role: str
    name: str
    rows: Rows
    formula: str = ""
    caption: str = ""
    part: int | None = None
    factors: tuple[str, ...] = ()  # roles of the matrices that a product may print


@dataclass
class Story:
    """The items of one example and the sentences that state its conventions."""

    kind: str
    items: list[Item]
    title: str
    remarks: list[str] = field(default_factory=list)
    is_column: bool = False


def format_given(matrix: np.ndarray) -> Rows:
    """Return the numbers of a given as an author writes them."""
    return [[f"{value:g}" for value in row] for row in matrix]


def transpose(rows: Rows) -> Rows:
    """Return the rows of the transposed matrix."""
    return [list(row) for row in zip(*rows, strict=True)]


def tell(sheet: Sheet, worked: Worked, rng: Rng, language: str = "en") -> Story:
    """Return the story of a sheet."""
    if sheet.kind == "attention":
        return _tell_attention(sheet, worked, rng, language)
    teller = {
        "feed_forward": _tell_feed_forward,
        "layer_norm": _tell_layer_norm,
        "positions": _tell_positions,
        "rnn": _tell_rnn,
        "lstm": _tell_lstm,
    }[sheet.kind]
    return teller(sheet, worked)


def _tell_attention(sheet: Sheet, worked: Worked, rng: Rng, language: str) -> Story:
    letters = dict(LETTERS[rng.integers(len(LETTERS))])
    captions, columns = CAPTIONS[language], sheet.columns
    given, items = sheet.given, list[Item]()

    def orient(rows: Rows) -> Rows:
        return transpose(rows) if columns else rows

    def times(a: str, b: str) -> str:
        return f"{b} {a}" if columns else f"{a} {b}"

    names = {"context": "C"}
    for role, matrix in given.items():
        is_bias = role.startswith("b_")
        rows = format_given(matrix)
        items.append(
            Item(
                role, names.get(role, role), orient(rows) if not (is_bias and not columns) else rows
            )
        )
    divisor = (
        ""
        if sheet.scale is None or sheet.scale == 1
        else (
            rf"\sqrt{{{sheet.d_k}}}"
            if sheet.settings["scale"] == "sqrt(d_k)"
            else f"{sheet.scale:g}"
        )
    )
    has_mask = sheet.mask is not None
    if has_mask:
        rows = [["0" if v else r"-\infty" for v in row] for row in sheet.mask]
        items.append(Item("mask", "M", orient(rows)))
    source = "C" if "context" in given else "X"
    for key, texts in worked.texts.items():
        role, _, end = key.partition(".")
        part = int(end) if end else None
        index = f"_{end}" if end else ""

        def letter(step: str, index: str = index) -> str:
            name = letters.get(step, step)
            return name.replace("_s", "_{s}").replace("_m", "_{m}") + index if index else name

        formula, factors = "", ()
        if role in ("Q", "K", "V"):
            origin = "X" if role == "Q" else source
            if f"W_{role}" in given:
                formula = times(origin, f"W_{role}")
                factors = ("X" if origin == "X" else "context", f"W_{role}")
            else:
                formula = origin
            if f"b_{role}" in given:
                formula, factors = f"{formula} + b_{role}", ()
        elif role == "scores":
            formula = rf"K{index}^T Q{index}" if columns else rf"Q{index} K{index}^T"
        elif role == "scaled":
            formula = rf"\frac{{{letter('scores')}}}{{{divisor}}}"
            if letters["scaled"] == letters["scores"]:
                product = rf"K{index}^T Q{index}" if columns else rf"Q{index} K{index}^T"
                formula = rf"\frac{{{product}}}{{{divisor}}}"
        elif role == "masked":
            before = "scaled" if divisor else "scores"
            formula = f"{letter(before)} + M"
        elif role == "weights":
            formula = rf"\text{{softmax}}({_argument(letter, divisor, has_mask, worked, end)})"
        elif role == "mixed" and part is None and sheet.heads > 1:
            heads = ", ".join(letters["mixed"] + f"_{h}" for h in range(1, sheet.heads + 1))
            formula = rf"\text{{Concat}}({heads})"
        elif role == "mixed":
            formula = times(letter("weights"), f"V{index}")
            factors = ("weights", "V") if part is None else ()
        elif role == "output":
            formula = times(letters["mixed"], "W_O") + (" + b_O" if "b_O" in given else "")
            factors = () if "b_O" in given else ("mixed", "W_O")
        name = letter(role) if role in letters else role
        caption = captions.get(role, "") + (f" {end}" if end else "")
        items.append(Item(role, name, orient(texts), formula, caption, part, factors))
    remarks = []
    if columns:
        remarks.append("Every token is a column.")
    if not divisor:
        remarks.append("There is no scaling here.")
    else:
        remarks.append(f"The scores are divided by {divisor.replace('sqrt', 'sqrt')}.")
    if has_mask:
        remarks.append("A mask hides some keys.")
    remarks.append("Then comes a softmax for each query.")
    return Story("attention", items, "Attention", remarks, columns)


def _argument(letter, divisor: str, has_mask: bool, worked: Worked, end: str) -> str:  # type: ignore[no-untyped-def]
    """Return what the softmax is taken of, as far as it has been printed."""
    suffix = f".{end}" if end else ""
    if has_mask and f"masked{suffix}" in worked.texts:
        return str(letter("masked"))
    scores = letter("scores")
    if divisor:
        scores = letter("scaled") if f"scaled{suffix}" in worked.texts else rf"{scores} / {divisor}"
    return f"{scores} + M" if has_mask else str(scores)


def _tell_feed_forward(sheet: Sheet, worked: Worked) -> Story:
    items = [Item(role, role, format_given(m)) for role, m in sheet.given.items()]
    first = "X W_1" + (" + b_1" if "b_1" in sheet.given else "")
    names = {"hidden": "H", "activated": "A", "output": "Y"}
    name = str(sheet.settings.get("activation", "relu"))
    activation = {"relu": "ReLU", "gelu": "GELU"}.get(name, name)
    formulas = {
        "hidden": first,
        "activated": rf"\text{{{activation}}}(H)",
        "output": "A W_2" + (" + b_2" if "b_2" in sheet.given else ""),
    }
    for role, texts in worked.texts.items():
        items.append(Item(role, names[role], texts, formulas[role], role.capitalize()))
    return Story("feed_forward", items, "Feed-forward layer", [f"The activation is {activation}."])


def _tell_layer_norm(sheet: Sheet, worked: Worked) -> Story:
    names = {"gamma": r"\gamma", "beta": r"\beta", "mean": r"\mu", "variance": r"\sigma^2",
             "normalised": r"\hat{X}", "output": "Y"}  # fmt: skip
    items = [Item(r, names.get(r, r), format_given(m)) for r, m in sheet.given.items()]
    captions = {
        "mean": "Mean",
        "variance": "Variance",
        "normalised": "Normalised",
        "output": "Output",
    }
    for role, texts in worked.texts.items():
        items.append(Item(role, names[role], texts, "", captions[role]))
    eps = sheet.settings.get("eps")
    return Story(
        "layer_norm", items, "Layer normalisation", [rf"We use $\epsilon = {eps}$."] if eps else []
    )


def _tell_positions(sheet: Sheet, worked: Worked) -> Story:
    items = [Item("encoding", "PE", worked.texts["encoding"], "", "Position encoding")]
    width, base = sheet.settings["width"], sheet.settings["base"]
    remarks = [f"The width is $d_{{model}} = {width}$."]
    remarks += [f"The base is $base = {base}$."] if base != 10_000 else []
    return Story("positions", items, "Position encoding", remarks)


def _tell_rnn(sheet: Sheet, worked: Worked) -> Story:
    names = {"W_xh": "W_{xh}", "W_hh": "W_{hh}", "h0": "h_0"}
    items = [Item(r, names.get(r, r), format_given(m)) for r, m in sheet.given.items()]
    for key, texts in worked.texts.items():
        role, _, time = key.partition(".")
        name = f"z_{time}" if role == "sum" else f"h_{time}"
        formula = (
            rf"\tanh(z_{time})"
            if role == "h"
            else f"x_{time} W_{{xh}} + h_{int(time) - 1} W_{{hh}}"
        )
        items.append(Item(role, name, texts, formula, "", int(time)))
    return Story("rnn", items, "A recurrent network (RNN)")


def _tell_lstm(sheet: Sheet, worked: Worked) -> Story:
    items = [Item("X", "X", format_given(sheet.given["X"]))]
    width = len(sheet.given["W_h"])
    for matrix, letter in (("W_x", "W"), ("W_h", "U"), ("b", "b")):
        if matrix in sheet.given:
            for k, gate in enumerate("ifgo"):
                part = sheet.given[matrix][:, k * width : (k + 1) * width]
                items.append(
                    Item(f"{letter}_{gate}", f"{letter}_{GATE_NAMES[gate]}", format_given(part))
                )
    for state in ("h0", "c0"):
        if state in sheet.given:
            items.append(Item(state, f"{state[0]}_0", format_given(sheet.given[state])))
    for key, texts in worked.texts.items():
        role, _, time = key.partition(".")
        name = rf"\tilde{{c}}_{time}" if role == "g" else f"{role}_{time}"
        items.append(Item(role, name, texts, "", "", int(time)))
    return Story("lstm", items, "An LSTM cell")
