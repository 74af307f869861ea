"""Tables as text and HTML: of any rows, of the layers of a model, of the tokens of a text."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from workings.interpret.results import VectorizedText
from workings.plain_text import display_width, pad_left, pad_right, to_one_line

if TYPE_CHECKING:
    from workings.models.summary import ModelSummary

TABLE_CSS = """
.workings table.plain { font-size: .92rem; }
.workings table.plain th { text-align: right; padding: .15rem .6rem; max-width: none;
  border-bottom: 1px solid var(--line); }
.workings table.plain td { padding: .15rem .6rem; }
.workings table.plain .word { text-align: left; }
.workings table.plain caption { padding-bottom: .4rem; }
"""
CLASS_HEADER = ("class", "precision", "recall", "F1", "texts")
LAYER_HEADER = ("layer", "output shape", "parameters", "mult-adds")


def text_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, text_columns: int = 1
) -> str:
    """Return a table as text; the first `text_columns` columns are aligned left, the others right.

    >>> print(text_table(("layer", "parameters"), [("head", "130"), ("embedding", "2,560,000")]))
    layer      parameters
    ─────────────────────
    head              130
    embedding   2,560,000
    """
    widths = [max(display_width(line[k]) for line in (header, *rows)) for k in range(len(header))]

    def format_line(cells: Sequence[str]) -> str:
        aligned = (
            pad_right(cell, width) if k < text_columns else pad_left(cell, width)
            for k, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join(aligned).rstrip()

    rule = "─" * (sum(widths) + 2 * (len(widths) - 1))
    return "\n".join([format_line(header), rule, *map(format_line, rows)])


def html_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    text_columns: int = 1,
    caption: str = "",
) -> str:
    """Return a table as HTML, all texts escaped; `TABLE_CSS` has its rules."""

    def format_cells(tag: str, cells: Sequence[str]) -> str:
        return "".join(
            f'<{tag} class="{"word" if k < text_columns else "figure"}">{escape(cell)}</{tag}>'
            for k, cell in enumerate(cells)
        )

    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    body = "".join(f"<tr>{format_cells('td', row)}</tr>" for row in rows)
    return (
        f'<table class="plain">{title}<thead><tr>{format_cells("th", header)}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


def class_rows(classes: Mapping[str, Mapping[str, float]]) -> list[tuple[str, ...]]:
    """Return one table row per class of a classifier: precision, recall, F1, number of texts."""
    return [
        (
            to_one_line(label),
            *(f"{row[name]:.4f}" for name in ("precision", "recall", "f1")),
            f"{row['support']:,}",
        )
        for label, row in classes.items()
    ]


def layer_rows(summary: "ModelSummary") -> list[tuple[str, ...]]:
    """Return one table row per layer; the batch dimension of a shape is −1."""
    return [
        (
            f"{row.name} ({row.kind})",
            str(list(row.shape)),
            f"{row.parameters:,}",
            f"{row.mult_adds:,}",
        )
        for row in summary.rows
    ]


def layer_totals(summary: "ModelSummary") -> list[str]:
    """Return the totals of a model, one line each: parameters, mult-adds, memory."""
    return [
        f"parameters: {summary.parameters:,} (trainable: {summary.trainable_parameters:,})",
        f"mult-adds: {summary.mult_adds / 1e6:.2f} M for one text",
        f"memory: input of 64 texts {summary.input_mb:.2f} MB, forward and backward of one "
        f"{summary.activations_mb:.2f} MB, parameters {summary.parameters_mb:.2f} MB, "
        f"total {summary.total_mb:.2f} MB",
    ]


def layer_table(summary: "ModelSummary") -> str:
    """Return the layers and totals of a model as text."""
    table = text_table(LAYER_HEADER, layer_rows(summary), text_columns=2)
    rule = table.splitlines()[1]
    return "\n".join([table, rule, *layer_totals(summary)])


def render_vectorized_texts(texts: Sequence[VectorizedText]) -> str:
    """Return the stages of each text: the text, standardized, and its tokens, ids and vectors."""
    return "\n\n".join(map(_format_stages, texts))


def _format_stages(text: VectorizedText) -> str:
    rows = [
        (to_one_line(token), str(number), _format_vector(vector, text.width))
        for token, number, vector in zip(text.tokens, text.ids, text.vectors, strict=True)
    ]
    header = ("token", "id", f"vector of {text.width}")
    return (
        f"text          {to_one_line(text.text)}\n"
        f"standardized  {to_one_line(text.standardized)}\n"
        f"{text_table(header, rows) if rows else '(no tokens)'}"
    )


def _format_vector(numbers: Sequence[float], width: int) -> str:
    formatted = "  ".join(f"{x:6.2f}" for x in numbers)
    return f"{formatted}  …" if width > len(numbers) else formatted
