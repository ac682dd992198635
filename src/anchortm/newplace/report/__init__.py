"""Reports as one HTML file with interactive plots: the kit that makes such pages, and the page of an assessment."""

from anchortm.newplace.report.assessment import assessment_page
from anchortm.newplace.report.model_page import model_page
from anchortm.newplace.report.page import Page
from anchortm.newplace.report.parts import Column, badge, bullets, code, facts, note, paragraphs, table

__all__ = [
    "Column",
    "Page",
    "assessment_page",
    "badge",
    "bullets",
    "code",
    "facts",
    "model_page",
    "note",
    "paragraphs",
    "table",
]
