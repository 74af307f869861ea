"""docs/why.md has every question, with its picture."""

import re
from pathlib import Path

from workings.experiments import QUESTIONS

DOCS = Path(__file__).parents[2] / "docs"


def test_every_question_has_its_answer_and_its_picture():
    page = (DOCS / "why.md").read_text(encoding="utf-8")
    assert re.findall(r"^## `(\w+)`: (.*)$", page, re.MULTILINE) == list(QUESTIONS.items())
    pictures = re.findall(r"^!\[.+\]\(why/(\w+)\.svg\)$", page, re.MULTILINE)
    assert pictures == list(QUESTIONS)
    for name in QUESTIONS:
        assert (DOCS / "why" / f"{name}.svg").read_text(encoding="utf-8").startswith("<svg")
    assert page.count("What would change it: ") == len(QUESTIONS)
