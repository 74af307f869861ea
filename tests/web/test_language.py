"""The page and its answers in the language that the browser asks for."""

import json

import pytest
from fastapi.testclient import TestClient

from workings.languages import list_languages, load_language
from workings.web.app import build_app
from workings.web.assets import load_assets
from workings.web.language import choose_language
from workings.web.problem_answers import answer

REQUEST = {
    "table": {
        "kind": "attention",
        "given": {"X": [["1", "2"], ["3", "1"]]},
        "claims": [{"key": "scores", "reprint": 0, "cells": [["5", "5"], ["6", "10"]]}],
        "settings": {"scale": "none"},
    }
}


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(build_app(), base_url="http://127.0.0.1")


def test_the_kinds_have_titles_in_the_language_of_the_request(client: TestClient) -> None:
    def title(language: str) -> str:
        kinds = client.get("/api/kinds", headers={"accept-language": language}).json()
        return next(kind["title"] for kind in kinds if kind["name"] == "self")

    assert title("") == title("pt-BR") == title("en-GB,de;q=0.5") == "Self-attention"
    assert title("fr-CA,en;q=0.5") == "Auto-attention"
    assert title("zh-CN") == "自注意力"


def test_sentences_are_translated_and_numbers_keep_the_point(client: TestClient) -> None:
    report = client.post("/api/check", json=REQUEST, headers={"accept-language": "de"}).json()
    assert "Fehler" in report["summary"]
    assert report["findings"][0]["location"] == "scores, Zeile 2, Spalte 1"
    english = client.post("/api/check", json=REQUEST).json()
    assert english["findings"][0]["location"] == "scores, row 2, column 1"
    assert english["findings"][0]["causes"][0]["name"] == report["findings"][0]["causes"][0]["name"]


def test_without_a_server_an_answer_is_in_the_language_that_is_named() -> None:
    def ask(language: str) -> str:
        report = json.loads(answer("/api/check", json.dumps(REQUEST), language).body)
        return str(report["findings"][0]["location"])

    assert ask("vi") == "scores, hàng 2, cột 1"
    assert ask("") == "scores, row 2, column 1"


def test_the_page_lists_the_languages_and_has_their_texts(client: TestClient) -> None:
    page = client.get("/").text
    assert "LANGUAGES" not in page
    for code, name in list_languages().items():
        assert name in page
        response = client.get(f"/page/language-{code}.json")
        assert response.json() == load_language(code).page
        assert f"language-{code}.json" in load_assets()


def test_a_header_of_any_form_chooses_a_language() -> None:
    assert choose_language("*") == choose_language(";;,,=") == choose_language("../de") == "en"
    assert choose_language("DE") == "de"
