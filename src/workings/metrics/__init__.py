"""Scores of translations and captions, their confidence intervals, and scores by length.

Nothing here needs torch.
"""
