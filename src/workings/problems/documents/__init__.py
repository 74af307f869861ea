"""Read problems and matrices from documents: LaTeX, Markdown, printed arrays and prose."""
