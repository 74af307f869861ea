"""How good translations are: BLEU and chrF, how sure that is, and where they fail. No torch."""
