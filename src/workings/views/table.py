"""Plain tables: a line a row in the terminal, rows and cells in HTML."""

from collections.abc import Sequence
from html import escape

from workings.views import plain


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """Lay rows out under their head; the first `left` columns are words, the others numbers.

    >>> print(text_table(("layer", "parameters"), [("head", "130"), ("embedding", "2,560,000")]))
    layer      parameters
    ─────────────────────
    head              130
    embedding   2,560,000
    """
    widths = [max(plain.width(line[k]) for line in (head, *rows)) for k in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        aligned = (
            plain.left(cell, width) if k < left else plain.right(cell, width)
            for k, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join(aligned).rstrip()

    rule = "─" * (sum(widths) + 2 * (len(widths) - 1))
    return "\n".join([line(head), rule, *map(line, rows)])


def html_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, caption: str = ""
) -> str:
    """Write the same as HTML, everything escaped."""

    def cells(tag: str, line: Sequence[str]) -> str:
        return "".join(
            f'<{tag} class="{"word" if k < left else "figure"}">{escape(cell)}</{tag}>'
            for k, cell in enumerate(line)
        )

    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return (
        f'<table class="plain">{title}<thead><tr>{cells("th", head)}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )
