"""The anchor loss of each kind of model."""
