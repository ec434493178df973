"""Readers of the datasets of other programs."""
