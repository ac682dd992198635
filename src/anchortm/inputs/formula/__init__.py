"""Formulas: taken apart, checked, evaluated on a table."""

from anchortm.inputs.formula.evaluation import Formula

__all__ = ["Formula"]
