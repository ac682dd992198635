"""The report of an assessment: its record as one HTML file."""

from __future__ import annotations

from typing import Any

from anchortm.newplace.report import answer, evidence, sites
from anchortm.newplace.report.page import Page
from anchortm.newplace.report.values import known, name, number

__all__ = ["assessment_page"]

TITLE = "Does it help at a new place?"


def assessment_page(record: dict[str, Any]) -> str:
    """Return what ``Assessment.to_dict()`` returned as one HTML file, which loads nothing and opens from disk.

    Parts of the record that are None leave their section out. Numbers that are None are shown as unknown.
    """
    page = Page(TITLE, _lead(record["about"]))
    answer.add_recommendation(page, record)
    answer.add_held_back(page, record)
    answer.add_new_place(page, record)
    sites.add_gains(page, record)
    sites.add_explorer(page, record)
    sites.add_labels(page, record)
    sites.add_calibration(page, record)
    sites.add_table(page, record)
    evidence.add_data(page, record)
    evidence.add_need(page, record)
    evidence.add_possibility(page, record)
    evidence.add_comparison(page, record)
    evidence.add_stability(page, record)
    evidence.add_methods(page, record)
    return page.html()


def _lead(about: dict[str, Any]) -> str:
    """Return one line that says what was assessed."""
    counts = {"rows": about.get("n_rows"), "events": about.get("n_events"), "places": about.get("n_environments")}
    numbers = ", ".join(f"{number(value)} {label}" for label, value in counts.items() if known(value))
    outcome = f" for {name(about['outcome'])}" if about.get("outcome") else ""
    called = f" (by {name(about['environment_name'])})" if about.get("environment_name") else ""
    return f"{about['model']}{outcome}: {numbers}{called}"
