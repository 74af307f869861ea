"""Take screenshots of the page in a browser.

python docs/screens.py docs EMOJI FRENCH    those in docs/screens, with runs of emoji.toml and
                                            emoji-french.toml
python docs/screens.py FOLDER [RUN…]        every screen, light and dark, from phone to wall size
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

SCREENS = Path(__file__).resolve().parent / "screens"
SIZES = {390: 844, 768: 1000, 1440: 900, 2560: 1300}
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
NUM_COLORS = 256  # a third of the bytes, with no visible difference


def main() -> None:
    """Take the screenshots for the docs, or of every screen at every size."""
    folder, runs = Path(sys.argv[1]), [Path(run).resolve() for run in sys.argv[2:]]
    with serve_in_background(runs) as address, sync_playwright() as playwright:
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        if folder.name == "docs":
            SCREENS.mkdir(exist_ok=True)
            capture_docs(browser, address, *(run.name for run in runs))
            capture_explanation(browser, runs[0])
        else:
            folder.mkdir(parents=True, exist_ok=True)
            capture_all(browser, address, folder, runs)
        browser.close()


def capture_docs(browser: Any, address: str, emoji: str, french: str) -> None:
    """Take one screenshot of each screen."""
    screens = {
        "home": ("home", open_home),
        "practice": ("practice?level=1", open_practice),
        "work": ("work", open_work),
        "check": ("check", open_check),
        "inspect": (f"inspect?run={french}&text=red+heart&part=cross&layer=2&head=1", open_inspect),
        "train": (f"train?run={emoji}", open_train),
        "compare": (
            f"compare?a={french}&mode=permuted&text=woman+and+man+holding+hands",
            open_compare,
        ),
    }
    page = browser.new_page(viewport={"width": 1440, "height": 1060}, color_scheme="light")
    for name, (fragment, open_screen) in screens.items():
        # Check has the givens above the steps: the wrong number has to fit in, too.
        page.set_viewport_size({"width": 1440, "height": 1360 if name == "check" else 1060})
        page.goto(f"{address}/#{fragment}")
        page.reload()
        open_screen(page)
        save(page.screenshot(), name)
    page = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme="dark")
    page.goto(f"{address}/#check")
    open_check(page)
    save(page.screenshot(), "phone")


def open_home(page: Any) -> None:
    """Show the cell that is explained first."""
    page.locator(".tour .formula").wait_for()


def open_practice(page: Any) -> None:
    """Show a problem with a hint."""
    page.locator("figure[data-key=Q]").first.wait_for()
    page.get_by_role("button", name="Hint: Q").click()
    page.locator(".hints math").first.wait_for()


def capture_explanation(browser: Any, emoji: Path) -> None:
    """Take a screenshot of the page that `workings explain` writes."""
    with TemporaryDirectory() as folder:
        out, text = Path(folder) / "why.html", "visage souriant avec les yeux"
        workings(["explain", str(emoji), text, "--format", "html", "--out", str(out)])
        page = browser.new_page(viewport={"width": 1000, "height": 600}, color_scheme="light")
        page.goto(out.as_uri())
        save(page.screenshot(full_page=True), "explained")


def save(screenshot: bytes, name: str) -> None:
    """Write a screenshot for the docs with a reduced palette."""
    picture = Image.open(io.BytesIO(screenshot)).convert("RGB")
    method = Image.Quantize.MAXCOVERAGE  # the default merges colors that few pixels have
    reduced = picture.quantize(NUM_COLORS, method=method, kmeans=1, dither=Image.Dither.NONE)
    reduced.save(SCREENS / f"{name}.png", optimize=True)


def capture_all(browser: Any, address: str, folder: Path, runs: list[Path]) -> None:
    """Take every screen, of all runs, at every size, light and dark."""
    for width, height in SIZES.items():
        for scheme in ("light", "dark"):
            view = {"width": width, "height": height}
            page = browser.new_page(viewport=view, color_scheme=scheme)
            for screen, open_screen in {"work": open_work, "check": open_check}.items():
                page.goto(f"{address}/#{screen}")
                page.reload()
                open_screen(page)
                page.screenshot(path=folder / f"{screen}-{width}-{scheme}.png")
            for run in runs:
                for screen, open_screen in {"inspect": open_inspect, "train": open_train}.items():
                    page.goto(f"{address}/#{screen}?run={run.name}")
                    page.reload()
                    open_screen(page)
                    page.screenshot(path=folder / f"{screen}-{run.name}-{width}-{scheme}.png")
            for mode in ("runs", "permuted") if len(runs) > 1 else ():
                a, b = (run.name for run in runs[:2])
                page.goto(f"{address}/#compare?a={a}&b={b}&mode={mode}")
                page.reload()
                open_compare(page)
                page.screenshot(path=folder / f"compare-{mode}-{width}-{scheme}.png")
            page.close()


def open_work(page: Any) -> None:
    """Show a masked problem and point at one number."""
    page.locator("figure[data-key=mixed]").wait_for()
    page.locator('input[name="mask"][value="causal"]').dispatch_event("click")
    page.locator("figure[data-key=masked]").wait_for()
    page.locator('figure[data-key=scores] td[data-row="1"][data-column="0"]').hover()
    page.locator(".dock .formula").wait_for()


def open_check(page: Any) -> None:
    """Show a lecture with a wrong number."""
    page.locator("select.lectures option").nth(1).wait_for(state="attached")
    page.select_option("select.lectures", "L2-self")
    page.locator(".dock .formula").wait_for()
    page.evaluate("scrollTo(0, 0)")


def open_inspect(page: Any) -> None:
    """Show the output of a run; if it has heads, write out one cell."""
    page.locator("table.bars, .generated").first.wait_for()
    page.wait_for_timeout(500)  # more responses arrive
    cells = page.locator("figure.map.table-map td:not(.masked)")
    if cells.count():
        cells.last.click()
    if page.locator(".thumb-box").count():  # an alignment has no workings
        page.locator(".derivation").wait_for()
    page.evaluate("scrollTo(0, 0)")


def open_train(page: Any) -> None:
    """Show the curves of a run."""
    page.locator("figure.chart svg").first.wait_for()
    page.locator(".settings-table").first.wait_for(state="attached")
    page.wait_for_timeout(500)  # the progress bar moves


def open_compare(page: Any) -> None:
    """Show two runs on the same input, or permuted tokens."""
    page.locator(".verdict:not(:empty), .status:not(:empty)").first.wait_for()
    page.wait_for_timeout(500)  # the curves arrive


if __name__ == "__main__":
    main()
