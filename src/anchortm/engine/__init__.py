"""The anchor loss and its minimum, on plain arrays."""
