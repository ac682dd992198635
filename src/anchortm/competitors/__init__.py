"""The L2 methods to compare with."""
