"""A report on a fitted or saved model at the places of a table: what it predicts there, and whether it still fits."""

from anchortm.newplace.model_report.result import ModelReport, model_report

__all__ = ["ModelReport", "model_report"]
