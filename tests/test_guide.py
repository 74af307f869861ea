"""What docs/classify.md tells people to type works as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = (Path(__file__).parents[1] / "docs" / "classify.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, flags=re.DOTALL)


@pytest.mark.slow
def test_the_guide(tmp_path):
    (program,) = blocks("python")
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    for name, recipe in zip(("mine.toml", "gru.toml"), blocks("toml"), strict=True):
        (tmp_path / name).write_text(recipe, encoding="utf-8")
    for command in "".join(blocks("sh")).splitlines():
        ours = command.replace("workings ", f"{sys.executable} -m workings ", 1)
        subprocess.run(ours, shell=True, cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "runs/mine/report.html").is_file()
    assert (tmp_path / "why.html").is_file()
    assert (tmp_path / "runs/compare/compare.html").is_file()
    predictions = (tmp_path / "predictions.jsonl").read_text().splitlines()
    assert len(predictions) == len((tmp_path / "names.csv").read_text().splitlines()) - 1
