"""The engine: the anchor loss and its minimisation, on plain arrays."""
