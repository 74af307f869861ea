"""Every language has every text, with the same placeholders."""

import re
import string

import pytest
from marked_texts import list_python_texts, list_script_texts

from workings.errors import UserError
from workings.languages import (
    SOURCE_LANGUAGE,
    get_language,
    gettext,
    list_languages,
    load_language,
    ngettext,
    use_language,
)
from workings.languages.catalog import NUM_FORMS
from workings.problems.notation import escape_latex

TRANSLATIONS = [code for code in list_languages() if code != SOURCE_LANGUAGE]


def list_placeholders(text: str) -> list[tuple[str, str]]:
    """Return the names and formats of the placeholders, sorted; a repeated one counts once."""
    fields = string.Formatter().parse(text)
    return sorted({(name, spec or "") for _, name, spec, _ in fields if name is not None})


def test_five_languages() -> None:
    assert set(list_languages()) >= {"en", "de", "fr", "vi", "zh"}


@pytest.mark.parametrize("code", TRANSLATIONS)
def test_no_text_is_missing_and_none_is_unknown(code: str) -> None:
    language, texts = load_language(code), list_python_texts()
    assert len(texts) > 700
    assert texts.keys() - language.messages.keys() == set(), "missing"
    assert language.messages.keys() - texts.keys() == set(), "no longer used"
    page = list_script_texts()
    assert page - language.page.keys() == set(), "missing on the page"
    assert language.page.keys() - page == set(), "no longer used on the page"


@pytest.mark.parametrize("code", TRANSLATIONS)
def test_placeholders_and_forms_agree(code: str) -> None:
    language, forms = load_language(code), list_python_texts()
    assert language.plural in NUM_FORMS
    for text, translation in {**language.messages, **language.page}.items():
        if forms.get(text) == 2:
            assert isinstance(translation, list), text
            assert len(translation) == NUM_FORMS[language.plural], text
        variants = translation if isinstance(translation, list) else [translation]
        for variant in variants:
            assert variant.strip(), text
            if "{" in text or "{" in variant:
                assert list_placeholders(variant) == list_placeholders(text), (text, variant)


@pytest.mark.parametrize("code", TRANSLATIONS)
def test_arrows_of_pictures_agree(code: str) -> None:
    """The page splits the picture of a computation at its arrows and before its gradients."""
    for text, translation in load_language(code).messages.items():
        if isinstance(translation, str) and " → " in text and "{" not in text:
            assert translation.count(" → ") == text.count(" → "), text
            assert ("; back: " in translation) == ("; back: " in text), text


def test_numbers_have_the_decimal_mark_of_the_language() -> None:
    with use_language("de"):
        assert gettext("did not divide by {divisor:.4g}", divisor=1.414213) == (
            "nicht durch 1,414 geteilt"
        )
        assert gettext("took powers of {base}", base=10) == "Potenzen von 10 genommen"
    with use_language("de", decimal_point=True):
        assert "1.414" in gettext("did not divide by {divisor:.4g}", divisor=1.414213)
    assert gettext("did not divide by {divisor:.4g}", divisor=1.414213).endswith("1.414")


def test_forms_follow_the_rule_of_the_language() -> None:
    def count(code: str, number: int) -> str:
        with use_language(code):
            return ngettext("{count} decimal", "{count} decimals", number)

    assert [count("en", n) for n in (0, 1, 2)] == ["0 decimals", "1 decimal", "2 decimals"]
    assert [count("fr", n) for n in (0, 1, 2)] == ["0 décimale", "1 décimale", "2 décimales"]
    assert re.fullmatch(r"1 \D+", count("vi", 1))
    assert count("de", 1) == "1 Nachkommastelle"


def test_the_language_before_returns_even_after_an_error() -> None:
    with pytest.raises(ValueError, match="x"), use_language("fr"):
        raise ValueError("x")
    assert get_language().code == SOURCE_LANGUAGE


@pytest.mark.parametrize("code", ["xx", "", "../de", "de.toml", "d"])
def test_an_unknown_language_is_a_user_error(code: str) -> None:
    with pytest.raises(UserError, match="--language"):
        load_language(code)


@pytest.mark.parametrize("code", list_languages())
def test_latex_knows_every_character(code: str) -> None:
    """A Greek letter or a quotation mark that the font of the text lacks would be left out."""
    with use_language(code) as language:
        translations = language.messages.values() if language.messages else list_python_texts()
        texts = [
            t for entry in translations for t in ([entry] if isinstance(entry, str) else entry)
        ]
        assert "ε" not in escape_latex("ε")
        unknown = set(re.findall(r"\\unicodechar\{(\w+)\}", escape_latex(" ".join(texts))))
    assert unknown <= {"2713", "2717"}  # ✓ and ✗ are not printed on paper
