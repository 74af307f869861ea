"""Models, one module a task. They know no files."""
