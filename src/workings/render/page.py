"""HTML pages and fragments: their frame, their CSS and escaping.

Every rule starts with `.workings`, so that a fragment does not restyle the page around it.
"""

import base64
import hashlib
import re
from html import escape

from workings.languages import get_language
from workings.plain_text import to_one_line
from workings.render.colors import INK, color_scale

_BASE_CSS = """
.workings { --ink: @light@; --soft: #5d5a55; --line: #d9d5cd; --paper: #ffffff; --card: #faf8f4;
  --wrong: #a5131b; --follows: #7a4b00; --fine: #17613a; --hatch: #b9b4aa; --link: #1a4e8a;
  --masked: #f4f2ee; --tick: linear-gradient(var(--ink), var(--ink)) no-repeat;
  --top-left: var(--tick) 0 0 / 6px 1.5px; --low-left: var(--tick) 0 100% / 6px 1.5px;
  --top-right: var(--tick) 100% 0 / 6px 1.5px; --low-right: var(--tick) 100% 100% / 6px 1.5px;
  color: var(--ink); background: var(--paper); line-height: 1.5; font-size: 1rem;
  font-family: "STIX Two Text", Charter, "Bitstream Charter", Cambria, "Times New Roman", serif;
  font-variant-numeric: lining-nums tabular-nums; text-align: left; overflow-wrap: anywhere;
  overflow-x: clip; padding: .75rem 1rem; }
.workings *, .workings *::before { box-sizing: border-box; }
.workings h1, .workings h2, .workings h3 { color: inherit; font-family: inherit; }
.workings h1 { font-size: 1.7rem; line-height: 1.2; font-weight: 600; margin: 0 0 1rem;
  text-wrap: balance; }
.workings h2 { font-size: 1.15rem; font-weight: 600; margin: 2.2rem 0 .8rem; padding: 0 0 .2rem;
  border-bottom: 1px solid var(--line); }
.workings h3 { font-size: 1rem; font-weight: 400; margin: 0 0 .35rem; padding: 0; }
.workings p, .workings dl, .workings dd, .workings dt, .workings ol { margin: 0; padding: 0; }
.workings a { color: var(--link); }
.workings math { font-size: 1.08em;
  font-family: "STIX Two Math", "Latin Modern Math", "Cambria Math", math, serif; }

.workings .verdict { font-size: 1.15rem; margin: 0 0 1rem; }
.workings .verdict b { font-weight: 600; }
.workings .summary { margin: 0 0 1rem; max-width: 46rem; }
.workings .is-wrong { color: var(--wrong); }
.workings .is-right { color: var(--fine); }
.workings .finding { border: 1px solid var(--line); border-left: 4px solid var(--wrong);
  background: var(--card); padding: .9rem 1.1rem 1rem; margin: 0 0 1.2rem; max-width: 46rem; }
.workings .finding h2 { margin: 0 0 .35rem; padding: 0; border: 0; font-size: 1.05rem; }
.workings .finding dl { display: grid; grid-template-columns: max-content minmax(0, 1fr);
  gap: .15rem 1rem; margin: .5rem 0 0; }
.workings .finding dt { color: var(--soft); font-weight: 400; }
.workings .finding dt, .workings .finding dd { float: none; width: auto; margin: 0; padding: 0; }
.workings .finding dd.formula { overflow-x: auto; overflow-y: hidden; }
.workings .finding .causes { margin-top: .7rem; padding-left: 1.4rem; }
.workings .finding .causes li + li { margin-top: .3rem; }
.workings .finding code { font: inherit; font-weight: 600; background: none; color: inherit;
  padding: 0; }

.workings .legend { display: flex; flex-wrap: wrap; gap: .35rem 1.6rem; align-items: center;
  color: var(--soft); font-size: .86rem; margin: 0; padding: 0; }
.workings .legend + .legend { margin-top: .4rem; }
.workings .bar { display: inline-flex; vertical-align: -.15em; border: 1px solid var(--line);
  margin: 0 .35em; }
.workings .bar i { width: .5rem; height: 1rem; }
.workings .sample { display: inline-block; min-width: 2.1em; padding: 0 .3em; margin-right: .35em;
  text-align: center; color: var(--ink); }

.workings .panels { display: flex; flex-wrap: wrap; gap: 1.9rem 3rem; align-items: flex-start;
  list-style: none; margin: 0; padding: 0; }
.workings .panel { position: relative; max-width: 100%; min-width: 0; margin: 0; padding: 0; }
.workings .panel h3 { display: flex; gap: .6rem; align-items: baseline; }
.workings .panel h3 .formula { overflow-x: auto; overflow-y: hidden; min-width: 0;
  padding: .1rem 0; }
.workings .number { color: var(--soft); font-size: .86rem; min-width: 1.1rem; }
.workings .scroll { overflow-x: auto; max-width: 100%; padding: 2px 0; }

.workings table { border-collapse: separate; border-spacing: 0; margin: 0; width: auto; border: 0;
  background: none; font-size: .97rem; line-height: 1.3; table-layout: auto; }
.workings table tr { background: none; border: 0; }
.workings table caption { caption-side: top; text-align: left; color: var(--soft);
  padding: 0 0 .25rem; font-size: .86rem; white-space: nowrap; }
.workings table caption math, .workings table caption b { color: var(--ink); font-weight: 400; }
.workings table th { font-weight: 400; color: var(--soft); font-size: .86rem; border: 0;
  padding: 0 .5rem 0 0; text-align: right; white-space: nowrap; background: var(--paper);
  max-width: 14rem; overflow: hidden; text-overflow: ellipsis; vertical-align: middle; }
.workings table th[scope="col"] { padding: 0 .45rem .15rem; max-width: 8rem; text-align: center; }
.workings table th[scope="row"], .workings table thead td { position: sticky; left: 0; z-index: 2; }
.workings table td { border: 0; padding: 1px; text-align: right; white-space: nowrap;
  max-width: none; vertical-align: middle; }
.workings table thead td { padding: 0; background: var(--paper); }
.workings .v { display: block; padding: .18rem .45rem; color: var(--ink);
  border: 2px solid transparent; position: relative; }

.workings tbody td.open { border-left: 1.5px solid var(--ink); padding-left: 5px; }
.workings tbody td.close { border-right: 1.5px solid var(--ink); padding-right: 5px; }
.workings tbody tr:first-child > * { padding-top: 4px; }
.workings tbody tr:last-child > * { padding-bottom: 4px; }
.workings tbody td { background: none; }
.workings tbody tr:first-child td.open { background: var(--top-left); }
.workings tbody tr:last-child td.open { background: var(--low-left); }
.workings tbody tr:first-child td.close { background: var(--top-right); }
.workings tbody tr:last-child td.close { background: var(--low-right); }
.workings tbody tr:first-child td.open.close { background: var(--top-left), var(--top-right); }
.workings tbody tr:last-child td.open.close { background: var(--low-left), var(--low-right); }
.workings tbody tr:only-child td.open { background: var(--top-left), var(--low-left); }
.workings tbody tr:only-child td.close { background: var(--top-right), var(--low-right); }
.workings tbody tr:only-child td.open.close {
  background: var(--top-left), var(--low-left), var(--top-right), var(--low-right); }

.workings .masked { color: var(--soft); background: repeating-linear-gradient(135deg,
  var(--hatch) 0 1px, var(--masked) 1px 6px); }
.workings .masked span { background: var(--masked); padding: 0 .15em; }
.workings .wrong { border: 2px solid var(--wrong); font-weight: 600; }
.workings .first { outline: 2px solid var(--wrong); outline-offset: 2px; }
.workings .follows { border: 2px dashed var(--follows); }
.workings .blank { border: 2px dotted var(--soft); color: var(--soft); }
.workings .sign { display: inline-block; width: 1.05em; margin-left: .1em; text-align: center;
  font-size: .85em; }
.workings .unseen { position: absolute; width: 1px; height: 1px; overflow: hidden;
  clip-path: inset(50%); white-space: nowrap; }

.workings td[tabindex] { cursor: help; }
.workings td[tabindex]:focus { outline: none; }
.workings td[tabindex]:hover .v { outline: 2px solid var(--soft); }
.workings td[tabindex]:focus .v, .workings td:target .v { outline: 3px solid var(--link); }
.workings td[tabindex]:hover .v, .workings td[tabindex]:focus .v, .workings td:target .v,
.workings .first { z-index: 1; }
.workings .note { position: absolute; left: 0; top: 100%; z-index: 3; display: none;
  width: max-content; max-width: min(100% + 14rem, 36rem); padding: .3rem .6rem;
  white-space: normal; text-align: left; font-weight: 400; font-size: .92rem; color: var(--ink);
  background: var(--card); border: 1px solid var(--soft); box-shadow: 0 2px 8px rgb(0 0 0 / .18); }
.workings td:hover > .note, .workings td:focus > .note { display: block; }
.workings td:hover > .note { z-index: 4; }

@media (max-width: 36rem) {
  .workings h1 { font-size: 1.35rem; }
  .workings .panels { gap: 1.5rem 1.6rem; }
  .workings .finding { padding: .7rem .8rem; }
  .workings .finding dl { grid-template-columns: minmax(0, 1fr); gap: 0; }
  .workings .finding dd { margin-bottom: .35rem; }
  .workings .v { padding: .15rem .3rem; }
  .workings table th { max-width: 6.5rem; }
  .workings .note { max-width: calc(100vw - 2rem); }
}
@media print {
  .workings { --paper: #fff; --card: #fff; --soft: #444; --line: #999; }
  .workings .v, .workings .bar i, .workings .sample, .workings tbody td, .workings .masked span {
    print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  .workings .note, .workings .hint { display: none !important; }
  .workings .panels { display: block; orphans: 1; widows: 1; }
  .workings .panel { display: inline-block; vertical-align: top; margin: 0 2.2rem 1.5rem 0; }
  .workings .panel, .workings .finding, .workings tr, .workings .legend { break-inside: avoid; }
  .workings h2, .workings h3, .workings caption { break-after: avoid; }
  .workings .scroll { overflow: visible; }
  .workings table th { position: static; overflow: visible; max-width: none; }
  .workings table.wide { font-size: 7pt; }
  .workings table.wider { font-size: 5pt; }
  .workings .wide .v, .workings .wider .v { padding: .1rem .05rem; border-width: 1px; }
  .workings .wide th, .workings .wider th { font-size: inherit; padding-right: .25rem; }
  .workings .wide th[scope="col"], .workings .wider th[scope="col"] { padding: 0 .1rem; }
  .workings a { color: inherit; text-decoration: none; }
}
"""

_PAGE_CSS = """
body { margin: 0; background: #ffffff; }
body > .workings { max-width: 62rem; margin: 0 auto; padding: 2rem 1.25rem 5rem; }
@media (max-width: 36rem) { body > .workings { padding: 1.1rem .8rem 5rem; } }
@media (prefers-color-scheme: dark) { @media screen { body { background: #17181b; } } }
@media print { html { font-size: 10pt; } body > .workings { max-width: none; padding: 0; } }
@page { margin: 15mm; }
"""

_DARK_CSS = """
@media screen and (prefers-color-scheme: dark) {
.workings { --ink: @dark@; --soft: #b3aea5; --line: #3b3d43; --paper: #17181b; --card: #202226;
  --wrong: #ff8f8a; --follows: #e8b45c; --fine: #7fd6a3; --hatch: #55585f; --link: #8fbcf5;
  --masked: #1f2125; }
@steps@
}
"""


def base_css() -> str:
    """Return the rules for everything below `.workings`."""
    light, dark = (
        "\n".join(f".workings .{name} {{ background-color: {color}; }}" for name, color in steps)
        for steps in (color_scale("light").items(), color_scale("dark").items())
    )
    rules = _BASE_CSS.replace("@light@", INK["light"])
    return rules + light + _DARK_CSS.replace("@dark@", INK["dark"]).replace("@steps@", dark)


def page_css() -> str:
    """Return the rules for a page of its own."""
    return base_css() + _PAGE_CSS


_STYLE_ELEMENT = re.compile(r"<style>(.*?)</style>", re.DOTALL)


def html_page(title: str, body: str, *, style: str = "", script: str = "") -> str:
    """Return a page around a body of escaped HTML, with a policy that allows only its own code."""
    rules = page_css() + style
    styles = " ".join(
        dict.fromkeys(f"'{_csp_hash(s)}'" for s in (rules, *_STYLE_ELEMENT.findall(body)))
    )
    scripts = f"; script-src '{_csp_hash(script)}'" if script else ""
    images = "; img-src data:" if 'href="data:image/png;' in body else ""
    policy = f"default-src 'none'; style-src {styles}{scripts}{images}"
    script_element = f"<script>{script}</script>\n" if script else ""
    return f"""<!doctype html>
<html lang="{get_language().code}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{escape_html(title)}</title>
<style>{rules}</style>
</head>
<body>
<main class="workings">
{body}
</main>
{script_element}</body>
</html>
"""


def html_fragment(body: str, *, style: str = "") -> str:
    """Return a body of escaped HTML with its style, to be inserted into another page."""
    return f'<style>{base_css()}{style}</style>\n<div class="workings">\n{body}\n</div>\n'


def escape_html(text: str) -> str:
    """Escape text for HTML, between tags and inside quotes, and put it on one line.

    >>> escape_html('<b> "R & D"')
    '&lt;b&gt; &quot;R &amp; D&quot;'
    """
    return escape(to_one_line(text), quote=True)


def _csp_hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
