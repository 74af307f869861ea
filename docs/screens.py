"""Take pictures of the workbench, in a real browser.

python docs/screens.py docs EMOJI FRENCH    those of docs/workbench.md and docs/explain.md, of
                                            runs of emoji.toml and emoji-french.toml
python docs/screens.py FOLDER [RUN…]        every screen, light and dark, from a phone to a wall
"""

import io
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from workings.cli import main as workings
from workings.web.server import serve_in_background

DOCS = Path(__file__).resolve().parent / "screens"
SIZES = {320: 720, 768: 1000, 1440: 900, 2560: 1300}
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
COLOURS = 128  # of a picture for the docs: a fifth of its bytes, and nobody sees it


def main() -> None:
    """Take all of them."""
    folder, runs = Path(sys.argv[1]), [Path(run).resolve() for run in sys.argv[2:]]
    with serve_in_background(runs) as address, sync_playwright() as playwright:
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        if folder.name == "docs":
            DOCS.mkdir(exist_ok=True)
            for_docs(browser, address, *(run.name for run in runs))
            explained(browser, runs[0])
        else:
            folder.mkdir(parents=True, exist_ok=True)
            everywhere(browser, address, folder, runs)
        browser.close()


def for_docs(browser: Any, address: str, emoji: str, french: str) -> None:
    """One of each screen, as small as can be."""
    screens = {
        "work": ("work", work),
        "check": ("check", check),
        "look": (f"inspect?run={french}&text=red+heart&part=cross&layer=2&head=1", look),
        "train": (f"train?run={emoji}", train),
        "compare": (f"compare?a={french}&mode=permuted&text=woman+and+man+holding+hands", compare),
    }
    page = browser.new_page(viewport={"width": 1440, "height": 1060}, color_scheme="light")
    for name, (where, show) in screens.items():
        page.goto(f"{address}/#{where}")
        page.reload()
        show(page)
        keep(page.screenshot(), name)


def explained(browser: Any, emoji: Path) -> None:
    """The page that `workings explain` writes."""
    with TemporaryDirectory() as folder:
        out, text = Path(folder) / "why.html", "visage souriant avec les yeux"
        workings(["explain", str(emoji), text, "--format", "html", "--out", str(out)])
        page = browser.new_page(viewport={"width": 1000, "height": 600}, color_scheme="light")
        page.goto(out.as_uri())
        keep(page.screenshot(full_page=True), "explained")


def keep(taken: bytes, name: str) -> None:
    """Write a picture for the docs, as small as can be."""
    picture = Image.open(io.BytesIO(taken)).convert("RGB")
    small = picture.quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(DOCS / f"{name}.png", optimize=True)


def everywhere(browser: Any, address: str, folder: Path, runs: list[Path]) -> None:
    """Every screen of all runs, at every size."""
    for width, height in SIZES.items():
        for scheme in ("light", "dark"):
            view = {"width": width, "height": height}
            page = browser.new_page(viewport=view, color_scheme=scheme)
            for screen, show in {"work": work, "check": check}.items():
                page.goto(f"{address}/#{screen}")
                page.reload()
                show(page)
                page.screenshot(path=folder / f"{screen}-{width}-{scheme}.png")
            for run in runs:
                for screen, show in {"inspect": look, "train": train}.items():
                    page.goto(f"{address}/#{screen}?run={run.name}")
                    page.reload()
                    show(page)
                    page.screenshot(path=folder / f"{screen}-{run.name}-{width}-{scheme}.png")
            for mode in ("runs", "permuted") if len(runs) > 1 else ():
                a, b = (run.name for run in runs[:2])
                page.goto(f"{address}/#compare?a={a}&b={b}&mode={mode}")
                page.reload()
                compare(page)
                page.screenshot(path=folder / f"compare-{mode}-{width}-{scheme}.png")
            page.close()


def work(page: Any) -> None:
    """A masked problem, with one number pointed at."""
    page.locator("figure[data-key=mixed]").wait_for()
    page.locator('input[name="mask"][value="causal"]').dispatch_event("click")
    page.locator("figure[data-key=masked]").wait_for()
    page.locator('figure[data-key=scores] td[data-row="1"][data-column="0"]').hover()
    page.locator(".dock .formula").wait_for()


def check(page: Any) -> None:
    """A lecture with a wrong number in it."""
    page.locator("select.lectures option").nth(1).wait_for(state="attached")
    page.select_option("select.lectures", "L2-self")
    page.locator(".dock .formula").wait_for()


def look(page: Any) -> None:
    """What a run makes of its input; where it has heads, with a cell written out."""
    page.locator("table.bars, .generated").first.wait_for()
    page.wait_for_timeout(500)  # further answers come by themselves
    cells = page.locator("figure.map.table-map td:not(.masked)")
    if cells.count():
        cells.last.click()
    show = page.get_by_role("button", name="Show the working")
    if show.count():  # an alignment has none
        show.click()
        page.locator(".derivation").wait_for()
    page.evaluate("scrollTo(0, 0)")


def train(page: Any) -> None:
    """How a run was trained."""
    page.locator("figure.chart svg").first.wait_for()
    page.locator(".settings-table").first.wait_for()


def compare(page: Any) -> None:
    """Two runs, the first two, on the same input; or tokens in another order."""
    page.locator(".verdict:not(:empty), .status:not(:empty)").first.wait_for()
    page.wait_for_timeout(500)  # curves come by themselves


if __name__ == "__main__":
    main()
