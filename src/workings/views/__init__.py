"""Plain data in; terminal, LaTeX, HTML and MathML out. Knows no torch."""
