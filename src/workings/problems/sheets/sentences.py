"""Sentences for the tokens of problems, with their translations."""

from random import Random

# Sentences and their translations, which are the context in cross-attention.
_SENTENCES = {
    2: (
        ("birds sing", "oiseaux chantent"),
        ("time flies", "temps file"),
        ("she reads", "elle lit"),
        ("water boils", "eau bout"),
        ("we agree", "nous acceptons"),
    ),
    3: (
        ("the cat sleeps", "le chat dort"),
        ("a child laughs", "un enfant rit"),
        ("we drink tea", "nous buvons thé"),
        ("my sister writes", "ma soeur écrit"),
        ("the train stops", "le train arrête"),
    ),
    4: (
        ("the dog sees me", "le chien me voit"),
        ("rain falls at night", "pluie tombe la nuit"),
        ("you read good books", "tu lis bons livres"),
        ("the old bridge holds", "le vieux pont tient"),
        ("she opens a window", "elle ouvre une fenêtre"),
    ),
    5: (
        ("the black cat sleeps here", "le chat noir dort ici"),
        ("we eat bread every morning", "nous mangeons pain chaque matin"),
        ("my friend plays the piano", "mon ami joue du piano"),
        ("a small boat crosses over", "un petit bateau traverse là"),
    ),
    6: (
        ("the teacher writes on the board", "le professeur écrit au tableau noir"),
        ("they walk home in the rain", "ils rentrent à pied sous pluie"),
        ("a red bird sits up there", "un oiseau rouge perche là haut"),
    ),
}


def choose_sentence(
    seed: int, number: int, tokens: int, context: int = 0
) -> tuple[list[str], list[str]]:
    """Return the words of a sentence and of its context: its translation, if the lengths agree.

    Every sentence is used before one is repeated.
    """
    sentence, translation = _pick_sentence(seed, number, tokens)
    if context and context != tokens:
        translation = _pick_sentence(seed, number, context)[1]
    return sentence.split(), translation.split() if context else []


def _pick_sentence(seed: int, number: int, tokens: int) -> tuple[str, str]:
    order = list(_SENTENCES[tokens])
    Random(f"words {seed}").shuffle(order)  # noqa: S311
    return order[number % len(order)]
