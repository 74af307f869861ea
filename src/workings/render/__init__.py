"""Plain data in; terminal, LaTeX, HTML, MathML and pictures out. Knows no torch."""
