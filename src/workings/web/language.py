"""The language of the page: a request names it in its header Accept-Language."""

import json
from html import escape
from typing import TYPE_CHECKING

from workings.languages import SOURCE_LANGUAGE, list_languages, load_language, use_language

if TYPE_CHECKING:
    from workings.web.security import App, Receive, Scope, Send

HEADER = b"accept-language"


class LanguageMiddleware:
    """ASGI middleware that answers in the language of the request.

    Numbers keep the decimal point: they are copied to and from programs.
    """

    def __init__(self, app: "App") -> None:
        self.app = app

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        with use_language(choose_language(read_header(scope)), decimal_point=True):
            await self.app(scope, receive, send)


def read_header(scope: "Scope") -> str:
    """Return the languages that a request accepts, as it writes them."""
    headers: dict[bytes, bytes] = dict(scope.get("headers", ()))
    return headers.get(HEADER, b"").decode("latin-1")[:200]


def choose_language(header: str) -> str:
    """Return the first language of a header that there is; English if there is none.

    >>> choose_language("pt-BR,de-AT;q=0.8,en;q=0.5"), choose_language("")
    ('de', 'en')
    """
    codes = (part.partition(";")[0].strip().partition("-")[0].lower() for part in header.split(","))
    return next((code for code in codes if code in list_languages()), SOURCE_LANGUAGE)


def build_page_texts() -> dict[str, bytes]:
    """Return the texts of the page's scripts by the name of their file, one per language."""
    return {
        f"language-{code}.json": json.dumps(load_language(code).page, ensure_ascii=False).encode()
        for code in list_languages()
    }


def format_language_names() -> str:
    """Return the names of the languages as JSON for an attribute of the page."""
    return escape(json.dumps(list_languages(), ensure_ascii=False))
