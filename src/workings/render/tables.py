"""Plain tables: a line a row in the terminal, rows and cells in HTML."""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from workings import plain_text
from workings.interpret.results import VectorizedText
from workings.plain_text import to_one_line

if TYPE_CHECKING:
    from workings.models.summary import ModelSummary


def text_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, text_columns: int = 1
) -> str:
    """Lay rows out under their head; the first `left` columns are words, the others numbers.

    >>> print(text_table(("layer", "parameters"), [("head", "130"), ("embedding", "2,560,000")]))
    layer      parameters
    ─────────────────────
    head              130
    embedding   2,560,000
    """
    widths = [
        max(plain_text.display_width(line[k]) for line in (header, *rows))
        for k in range(len(header))
    ]

    def line(cells: Sequence[str]) -> str:
        aligned = (
            plain_text.pad_right(cell, width)
            if k < text_columns
            else plain_text.pad_left(cell, width)
            for k, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join(aligned).rstrip()

    rule = "─" * (sum(widths) + 2 * (len(widths) - 1))
    return "\n".join([line(header), rule, *map(line, rows)])


def html_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    text_columns: int = 1,
    caption: str = "",
) -> str:
    """Write the same as HTML, everything escaped."""

    def cells(tag: str, line: Sequence[str]) -> str:
        return "".join(
            f'<{tag} class="{"word" if k < text_columns else "figure"}">{escape(cell)}</{tag}>'
            for k, cell in enumerate(line)
        )

    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return (
        f'<table class="plain">{title}<thead><tr>{cells("th", header)}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


LAYER_HEADER = ("layer", "output shape", "parameters", "mult-adds")


def layer_rows(summary: "ModelSummary") -> list[tuple[str, ...]]:
    """Write a line a layer. Shapes begin with −1 for the batch."""
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
    """Write the sums, a line each."""
    return [
        f"parameters: {summary.parameters:,} (trainable: {summary.trainable_parameters:,})",
        f"mult-adds: {summary.mult_adds / 1e6:.2f} M for one text",
        f"memory: input of 64 texts {summary.input_mb:.2f} MB, forward and backward of one "
        f"{summary.activations_mb:.2f} MB, parameters {summary.parameters_mb:.2f} MB, "
        f"together {summary.total_mb:.2f} MB",
    ]


def layer_table(summary: "ModelSummary") -> str:
    """Lay a summary out: a line a layer, then the sums."""
    table = text_table(LAYER_HEADER, layer_rows(summary), text_columns=2)
    rule = table.splitlines()[1]
    return "\n".join([table, rule, *layer_totals(summary)])


def render_vectorized_texts(texts: Sequence[VectorizedText]) -> str:
    """Write each text's stages below each other."""
    return "\n\n".join(_format_stages(told) for told in texts)


def _format_stages(vectorized: VectorizedText) -> str:
    rows = [
        (to_one_line(token), str(number), _format_vector(vector, vectorized.width))
        for token, number, vector in zip(
            vectorized.tokens, vectorized.ids, vectorized.vectors, strict=True
        )
    ]
    head = ("token", "id", f"vector of {vectorized.width}")
    return (
        f"text          {to_one_line(vectorized.text)}\n"
        f"standardised  {to_one_line(vectorized.standardized)}\n"
        f"{text_table(head, rows) if rows else '(no tokens)'}"
    )


def _format_vector(numbers: Sequence[float], width: int) -> str:
    written = "  ".join(f"{x:6.2f}" for x in numbers)
    return f"{written}  …" if width > len(numbers) else written
