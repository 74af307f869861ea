"""Short sentences, so that the rows of a problem have names and not only numbers."""

from random import Random

# What asks, and what is asked in cross-attention: the same said in French.
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


def sentence(seed: int, number: int, tokens: int, context: int = 0) -> tuple[list[str], list[str]]:
    """Choose a sentence of so many words, and one to be asked: the same one where the sizes allow.

    Each has its turn before one comes again.
    """
    asks, asked = _turn(seed, number, tokens)
    if context and context != tokens:
        asked = _turn(seed, number, context)[1]
    return asks.split(), asked.split() if context else []


def _turn(seed: int, number: int, tokens: int) -> tuple[str, str]:
    order = list(_SENTENCES[tokens])
    Random(f"words {seed}").shuffle(order)  # noqa: S311
    return order[number % len(order)]
