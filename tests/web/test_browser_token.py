"""The page is opened through a file that only its user can read; then a cookie has the token."""

import stat
import webbrowser
from typing import Any

import pytest

from workings.web.browser import open_link
from workings.web.server import serve_in_background


def test_the_file_leads_to_the_page_and_others_stay_out(
    browser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    with serve_in_background(has_token=True) as link:
        token = link.partition("token=")[2]
        file = open_link(link)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert token in file.read_text()
        assert token not in opened[0]
        page = browser.new_context().new_page()
        page.goto(opened[0])
        page.wait_for_selector("figure.matrix")
        assert token not in page.url
        page.reload()
        page.wait_for_selector("figure.matrix")
        stranger = browser.new_context().new_page()
        response = stranger.goto(link.partition("?")[0])
        assert response.status == 401
        for one in (page, stranger):
            one.context.close()
    file.unlink()
