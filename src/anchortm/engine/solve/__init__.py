"""The minimum of an objective, and whether the data determine it."""
