"""How good translations and captions are, how sure that is, and where they fail. No torch."""
