"""Fits of a few rows from a new place: a shift, a shift and a scale, or the baseline."""
