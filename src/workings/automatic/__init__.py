"""Choosing columns, tokenizer, model and schedule for a user's own data. Imports no torch."""
