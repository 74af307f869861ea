"""Problem sheets to be answered on the page."""

from workings.problems.make import make_sheet
from workings.problems.make.layout import page_of
from workings.web import told
from workings.web.asked import Sheet
from workings.web.laid import table


def made(asked: Sheet) -> told.Sheet:
    """Make a sheet; the same seed gives the same one."""
    sheet = make_sheet(
        asked.kind,
        (asked.tokens, asked.width),
        asked.count,
        asked.seed,
        decimals=asked.decimals,
        vectors=asked.vectors,
    )
    page = page_of(sheet)
    return told.Sheet(
        title=sheet.title,
        rules=page.tell,
        exercises=[
            told.Exercise(
                name=exercise.name,
                heading=task.heading,
                tell=task.tell,
                table=table(exercise.problem),
            )
            for exercise, task in zip(sheet.exercises, page.tasks, strict=True)
        ],
        notes=sheet.notes,
    )
