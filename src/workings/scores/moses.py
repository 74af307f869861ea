"""Words as Moses's tokenizer cuts them: what the older papers count BLEU over."""

from collections.abc import Callable

from workings.errors import UserError, near


def moses_tokeniser(language: str, *, lowercase: bool = False) -> Callable[[str], str]:
    """Give a function that puts spaces between words as Moses does for a language.

    Lower case comes first: where a sentence ends is told by the capital after it, and a model that
    writes in lower case should not be scored by capitals that only the references have.

    >>> moses_tokeniser("de", lowercase=True)("Ein Hund, z.B. Bello, rennt.")
    'ein hund , z.b. bello , rennt .'
    """
    from sacremoses import MosesTokenizer
    from sacremoses.corpus import NonbreakingPrefixes

    known = sorted(set(NonbreakingPrefixes().available_langs.values()))
    if language not in known:  # it would be cut as English is, without a word
        raise UserError(f"Moses has no language {language!r}: {near(language, known)}")
    moses = MosesTokenizer(language)

    def tokenise(text: str) -> str:
        cut: str = moses.tokenize(
            text.lower() if lowercase else text, escape=False, return_str=True
        )
        return cut

    return tokenise
