"""Formulas: taken apart, checked, evaluated on a table."""
