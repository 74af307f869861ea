"""Interpretation of trained models: attention, heads, attributions, neurons, gradients."""
