"""How a captioner describes pictures that it has not learned from, for its report."""

from workings.lens.glances import glances
from workings.tasks.caption import Captioning
from workings.views.captioned_html import strip
from workings.views.page import harmless

SHOWN = 6  # pictures


def described(task: Captioning) -> list[tuple[str, str]]:
    """The first test pictures (or validation's), what is said of them, and what people said."""
    part = "test" if task.pictures["test"] else "validation"
    pictures, pixels = task.pictures[part][:SHOWN], task.pixels[part][:SHOWN]
    shown = []
    for picture, photo, found in zip(pictures, pixels, task.caption(pixels), strict=True):
        told = glances(task, photo, found[0], picture.name)
        expected = "<br>".join(harmless(text) for text in picture.captions)
        shown.append(
            f'<h3 dir="auto">{harmless(told.caption)}</h3>\n'
            f'<p class="what" dir="auto">What was to be said:<br>{expected}</p>\n{strip(told)}'
        )
    return [(f"Captions ({part})", "\n".join(shown))] if shown else []
