"""Write docs/why.md and docs/why/*.svg: the questions of `workings why` and their results.

python docs/why.py                 all questions: about two minutes
python docs/why.py core scale      only these; the other sections stay as they are
"""

import re
import sys
from pathlib import Path

import torch

from workings.experiments import QUESTIONS, ask
from workings.experiments.base import Finding

HERE = Path(__file__).parent
PAGE = HERE / "why.md"
TITLE = """\
# Why?

Questions about sequence models. An experiment answers each of them, in seconds to a minute:

```sh
workings why                                  # list the questions
workings why core --out core.html             # answer one of them; also .svg and .png
workings why core --seed 2                    # does it hold for another seed?
```

`python docs/why.py` writes this page. The numbers are those of one run with seed 1 on one thread.
With other seeds or threads the numbers differ, some of them much; the effects do not. The times in
`parallel` are those of one machine. Each experiment is one file of
[src/workings/experiments](../src/workings/experiments/__init__.py), written to be read: it is built
from the library's own layers, and a test checks its effect.
"""


def main() -> None:
    """Run the named experiments, or all; update their sections and keep the others."""
    torch.set_num_threads(1)
    names = sys.argv[1:] or list(QUESTIONS)
    sections = split_sections(PAGE.read_text(encoding="utf-8")) if PAGE.exists() else {}
    (HERE / "why").mkdir(exist_ok=True)
    for name in names:
        finding = ask(name)
        finding.figure.save(HERE / "why" / f"{name}.svg")
        sections[name] = format_section(name, finding)
    page = [TITLE, *(sections[name] for name in QUESTIONS if name in sections)]
    PAGE.write_text("\n".join(page), encoding="utf-8")


def split_sections(page: str) -> dict[str, str]:
    """Return the sections of the page by the name of the question."""
    parts = re.split("^(?=## )", page, flags=re.MULTILINE)[1:]
    return {part.split("`")[1]: part.rstrip("\n") + "\n" for part in parts}


def format_section(name: str, finding: Finding) -> str:
    """Format a finding as a section with its picture."""
    lines = "\n\n".join(finding.lines)
    return f"""\
## `{name}`: {finding.question}

{lines}

![{finding.figure.title}](why/{name}.svg)

What would change it: {finding.caveats} ([the experiment](../src/workings/experiments/{name}.py))
"""


if __name__ == "__main__":
    main()
