"""Tokenizers: text to tokens to ids and back.

`base` trains and loads them by kind. Modules are imported where they are used, so that words and
characters need neither numpy nor the tokenizers package.
"""
