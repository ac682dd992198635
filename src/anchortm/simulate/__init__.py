"""Simulated data: structural models with interventions, and the scenarios of the paper."""
