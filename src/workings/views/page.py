"""A whole HTML page: self-contained, and nothing may run on it but what is named in its head."""

import base64
import hashlib
import re
from html import escape

from workings.views.plain import one_line
from workings.views.style import css, page_css

_STYLES = re.compile(r"<style>(.*?)</style>", re.DOTALL)


def whole_page(title: str, body: str, *, style: str = "", script: str = "") -> str:
    """Put a body, all of its texts escaped already, into a page of the house's style."""
    rules = page_css() + style
    styles = " ".join(dict.fromkeys(f"'{_hash(s)}'" for s in (rules, *_STYLES.findall(body))))
    scripts = f"; script-src '{_hash(script)}'" if script else ""
    images = "; img-src data:" if 'href="data:image/png;' in body else ""
    policy = f"default-src 'none'; style-src {styles}{scripts}{images}"
    running = f"<script>{script}</script>\n" if script else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{harmless(title)}</title>
<style>{rules}</style>
</head>
<body>
<main class="workings">
{body}
</main>
{running}</body>
</html>
"""


def piece(body: str, *, style: str = "") -> str:
    """Put a body into a piece to stand in somebody else's page, a notebook say."""
    return f'<style>{css()}{style}</style>\n<div class="workings">\n{body}\n</div>\n'


def harmless(given: str) -> str:
    """Make anybody's text harmless, between tags and inside quotes.

    >>> harmless('<b> "R & D"')
    '&lt;b&gt; &quot;R &amp; D&quot;'
    """
    return escape(one_line(given), quote=True)


def _hash(inside: str) -> str:
    digest = hashlib.sha256(inside.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
