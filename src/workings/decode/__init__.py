"""Decoding, written once over start and step: greedy, sampling, beam search."""
