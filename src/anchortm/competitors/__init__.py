"""Competitors: anchor regression and anchor boosting with squared errors."""
