"""Which text to look at: a file, a named text, or what a run held out."""

from workings.data.texts import pieces
from workings.errors import UserError
from workings.recipes import LanguageRecipe
from workings.tasks.language import learned_length


def passage(recipe: LanguageRecipe, source: str | None, characters: int) -> tuple[str, str]:
    """Read so many characters of a text, and what stands before them.

    `source` is a file or a named text, from its beginning; None: the recipe's own, from where its
    training did not read.
    """
    if characters < 1:
        raise UserError(f"{characters} characters: at least 1")
    if source is not None:
        return "", _first(source, characters)
    whole = "".join(pieces(recipe.data.set))
    begin = learned_length(recipe, len(whole))
    return whole[:begin], whole[begin : begin + characters]


def _first(source: str, characters: int) -> str:
    found: list[str] = []
    for text in pieces(source):
        found.append(text[:characters])
        characters -= len(text)
        if characters <= 0:
            break
    return "".join(found)
