"""Write docs/why.md and docs/why/*.svg: the questions, each answered by its experiment.

python docs/why.py                 all of them: some minutes
python docs/why.py core scale      these; the others stay as they are
"""

import re
import sys
from pathlib import Path

import torch

from workings.experiments import QUESTIONS, ask
from workings.experiments.finding import Finding

HERE = Path(__file__).parent
PAGE = HERE / "why.md"
TITLE = """\
# Why?

Questions about sequence models, each answered by an experiment of seconds to a minute:

```sh
workings why                                  # the questions
workings why core --out core.html             # one of them; .svg and .png, too
workings why core --seed 2                    # does it hold for other dice?
```

Written by `python docs/why.py`: the numbers are those of one run with seed 1 on one thread; with
other seeds or threads they differ, some of them much, and the effects do not; the times in
`parallel` are one machine's. Each experiment is a file of
[src/workings/experiments](../src/workings/experiments/__init__.py) that is meant to be read: it is made of the
library's own layers, and a test holds it to its effect.
"""


def main() -> None:
    """Ask the questions that are named, or all, and keep what the page has of the others."""
    torch.set_num_threads(1)
    names = sys.argv[1:] or list(QUESTIONS)
    kept = sections(PAGE.read_text(encoding="utf-8")) if PAGE.exists() else {}
    (HERE / "why").mkdir(exist_ok=True)
    for name in names:
        found = ask(name)
        found.figure.save(HERE / "why" / f"{name}.svg")
        kept[name] = section(name, found)
    told = [kept[name] for name in QUESTIONS if name in kept]
    PAGE.write_text("\n".join([TITLE, *told]), encoding="utf-8")


def sections(page: str) -> dict[str, str]:
    """Take the page apart: what it says of each question, by name."""
    parts = re.split("^(?=## )", page, flags=re.MULTILINE)[1:]
    return {part.split("`")[1]: part.rstrip("\n") + "\n" for part in parts}


def section(name: str, found: Finding) -> str:
    """Say what was found, with its picture."""
    lines = "\n\n".join(found.lines)
    return f"""\
## `{name}`: {found.question}

{lines}

![{found.figure.title}](why/{name}.svg)

What would change it: {found.caveats} ([the experiment](../src/workings/experiments/{name}.py))
"""


if __name__ == "__main__":
    main()
