"""Large matrices: the middle is left out, what has to be looked at is not."""

from dataclasses import replace

from workings.views.worked import Cell, Panel


def kept(count: int, focus: int | None, most: int) -> list[int | None]:
    """Choose which of so many rows to show; None stands for those left out.

    >>> kept(4, None, most=5), kept(9, 5, most=5)
    ([0, 1, 2, 3], [0, 1, None, 5, None, 7, 8])
    """
    if count <= most:
        return list(range(count))
    tail = (most - 1) // 2
    shown = sorted(
        {*range(most - tail - 1), *range(count - tail, count), 0 if focus is None else focus}
    )
    chosen: list[int | None] = []
    for before, k in zip([-1, *shown], shown, strict=False):
        chosen += [k] if k == before + 1 else [None, k]
    return chosen


def elided(panel: Panel, rows: int, columns: int) -> Panel:
    """Leave out the middle of a matrix with more rows or columns than that, and put dots there."""
    row, column = panel.first or (None, None)
    down, across = kept(panel.shape[0], row, rows), kept(panel.shape[1], column, columns)
    if None not in down and None not in across:
        return panel

    def cell(i: int | None, j: int | None) -> Cell:
        if i is not None and j is not None:
            return panel.cells[i][j]
        return Cell("⋱" if i is None and j is None else "⋮" if i is None else "⋯", None)

    return replace(
        panel,
        cells=[[cell(i, j) for j in across] for i in down],
        row_names=["⋮" if i is None else panel.row_names[i] for i in down],
        column_names=["⋯" if j is None else panel.column_names[j] for j in across],
        first=None if row is None or column is None else (down.index(row), across.index(column)),
    )
