"""The words of a caption, as caption measures count them."""

import re
import unicodedata

DROPPED = frozenset(".?!,:;-'`\"(){}[]“”„‘«»…–—")
TOKENISATION = "words,clitics-apart,no-punctuation"  # as signatures name it

_TOKEN = re.compile(
    r"""
    n't\b | '(?:s|m|d|re|ve|ll)\b  # clitics by themselves
    | \d+(?:[.,:]\d+)+             # 10,000 and 12:30
    | \w+?(?=n't\b)                # what stands before one
    | \w+(?:-\w+)*                 # t-shirt
    | [^\w\s]                      # any other sign
    """,
    re.VERBOSE,
)


def caption_words(text: str) -> list[str]:
    """Cut a caption into its words: lower case, clitics apart, punctuation dropped.

    This follows what the field's evaluation of captions has the Penn Treebank's tokenizer do, for
    languages that put spaces between words. "dog's" is two words, "isn't" is "is" and "n't";
    hyphens and a number's points hold together; `DROPPED` lists the signs that count for nothing,
    others (% & $ …) are words. What is rare in captions is not as the Treebank has it: the point
    of an abbreviation is dropped, "o'clock" is cut and "cannot" is not.

    >>> caption_words("The dog's T-shirt isn't red, (but 50% blue)!")
    ['the', 'dog', "'s", 't-shirt', 'is', "n't", 'red', 'but', '50', '%', 'blue']
    """
    plain = unicodedata.normalize("NFC", text).lower().replace("’", "'")
    return [word for word in _TOKEN.findall(plain) if word not in DROPPED]
