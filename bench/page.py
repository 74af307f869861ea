"""Measure the page in Chromium as a new user sees it.

    python bench/page.py RUN

RUN is a run of a Transformer. The server is a process of its own, and each visit has an empty
cache. The figures are medians of five visits: the first paint, the first answer of Inspect three
seconds after Home, the working under the pointer (from the pointer's event to the formula), and the
bytes of all files of the page. Writes results/page.json.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from report import environment, save

VISITS = 5
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
LIMITS = {"first paint": 1000, "first look": 2000, "hover to working": 100}  # milliseconds
MAX_BYTES = 400_000
FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
START_HOVER = """() => {
  const formula = () => document.querySelector('main .dock .formula')?.getAttribute('aria-label');
  window.hover = new Promise((resolve) => addEventListener('pointerover', ({ target }) => {
    if (!target.closest('td[data-row]')) return;
    const [start, before] = [performance.now(), formula()];
    const look = () =>
      formula() === before ? requestAnimationFrame(look) : resolve(performance.now() - start);
    look();
  }, { capture: true }));
}"""


def main() -> None:
    """Print each figure with its limit, and write them to a file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path)
    run = parser.parse_args().run
    visits = [measure_visit(run) for _ in range(VISITS)]
    figures: dict[str, Any] = {"page": {"bytes": visits[0]["bytes"], "limit": MAX_BYTES}}
    for name, limit in LIMITS.items():
        value = statistics.median(visit[name] for visit in visits)
        figures[name] = {"milliseconds": round(value), "limit": limit}
    print(json.dumps(figures, indent=2))
    save("page", {"environment": environment(), "load": round(os.getloadavg()[0], 1), **figures})


def measure_visit(run: Path) -> dict[str, float]:
    """Start a server, open Home as soon as it listens, and return the figures of one visit."""
    options = ["--port", "0", "--no-open", "--no-token"]
    command = [sys.executable, "-m", "workings", "serve", str(run), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            matches = (re.search(r"http://\S+", line) for line in server.stdout)
            address = next(match[0] for match in matches if match)
            with sync_playwright() as playwright:
                path = shutil.which("chromium")
                browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
                page = browser.new_page(viewport={"width": 1440, "height": 900})
                figures = visit_screens(page, address)
                browser.close()
        finally:
            server.terminate()
    return figures


def visit_screens(page: Any, address: str) -> dict[str, float]:
    """Open Home, then the run from its card, then Work."""
    sizes: dict[str, int] = {}

    def add_size(response: Any) -> None:
        if "/page/" in response.url:
            sizes[response.url] = len(response.body())

    page.on("response", add_size)
    page.goto(address)
    page.wait_for_selector(".tour .formula")
    figures = {"first paint": page.evaluate(FIRST_PAINT)}
    page.wait_for_timeout(3000)  # a user reads the headline
    start = page.evaluate("performance.now()")
    page.locator(".card .runs a").first.click()
    page.wait_for_selector("figure.map, table.bars, .generated")
    figures["first look"] = page.evaluate("performance.now()") - start
    page.get_by_role("link", name="Work", exact=True).click()
    page.wait_for_selector("figure[data-key=mixed]")
    hovers = []
    for row, column in ((0, 0), (1, 1), (2, 0), (0, 1), (2, 1)):
        page.mouse.move(0, 0)
        page.wait_for_timeout(200)
        page.evaluate(START_HOVER)
        cell = f'td[data-row="{row}"][data-column="{column}"]'
        page.locator(f"figure[data-key=mixed] {cell}").hover()
        hovers.append(page.evaluate("window.hover"))
    figures["hover to working"] = statistics.median(hovers)
    for name in ("Check", "Practice", "Train", "Compare"):
        page.get_by_role("link", name=name, exact=True).click()
        page.wait_for_timeout(300)
    figures["bytes"] = sum(sizes.values())
    return figures


if __name__ == "__main__":
    main()
