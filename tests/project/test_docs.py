"""The pages: every public name is there with an example, every page can be reached, and links lead somewhere."""

import importlib
import inspect
import os
import re
from pathlib import Path

import pytest
from paths import DOCS, ROOT

import anchortm
from anchortm import bases, exceptions

WRITTEN = {DOCS / "gallery" / "index.rst", DOCS / "reliability.md"}  # by make docs and make reliability
RESULTS = {
    "diagnostics.marginal_effects.MarginalEffects",
    "diagnostics.proportionality.ProportionalityTest",
    "inference.BoostedBootstrap",
    "inference.Bootstrap",
    "inference.ConfidenceBand",
    "inference.LikelihoodRatio",
    "inference.RestrictedMeans",
    "inference.Summary",
    "inputs.Kind",
    "inputs.as_response",
    "newplace.assessment.assessment.Assessment",
    "newplace.assessment.advice.Advice",
    "newplace.assessment.advice.Recommendation",
    "newplace.comparison.Comparison",
    "newplace.coverage.PlaceCoverage",
    "newplace.model_report.ModelReport",
    "newplace.recalibration.Recalibration",
    "predict.AveragedDistribution",
    "predict.AveragedFamily",
    "predict.Distribution",
    "predict.FamilyDistribution",
    "predict.MarkedDistribution",
    "predict.PiecewiseDistribution",
    "predict.PlaceVariance",
    "predict.PredictedDistribution",
    "predict.ShiftedFamily",
    "predict.StepDistribution",
    "selection.AnchorPath",
    "selection.ElasticNetPath",
    "selection.InvarianceRule",
    "selection.LeaveOneEnvironmentOut",
}


def public_names() -> list[str]:
    """Return what users may rely on: our names, those of public modules, what calls return, parts, errors."""
    names = [f"anchortm.{name}" for name in anchortm.__all__ if name not in ("__version__", *anchortm._MODULES)]
    for module in anchortm._MODULES:
        names += [f"anchortm.{module}.{name}" for name in getattr(anchortm, module).__all__]
    names += [f"anchortm.bases.{name}" for name in bases.__all__]
    names += [f"anchortm.exceptions.{name}" for name in exceptions.__all__ if name[0].isupper()]
    return names + [f"anchortm.{name}" for name in sorted(RESULTS)]


def found(name: str) -> object:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def pages() -> list[Path]:
    others = {"_build", "gallery", "generated", "paper"}
    return [path for path in sorted(DOCS.rglob("*.md")) if not others & set(path.parts)]


def prose(page: Path) -> str:
    """Return the page without its code."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^(`{3,}|:{3,}).*?^\1", "", page.read_text(), flags=re.M | re.S))


@pytest.mark.parametrize("name", public_names())
def test_every_public_name_has_an_example(name: str) -> None:
    documented = found(name)
    if inspect.isclass(documented) or inspect.isfunction(documented):
        assert ">>>" in (documented.__doc__ or ""), f"{name} has no example in its docstring"
    else:  # a table of names, which its comment describes
        assert isinstance(documented, dict)


def test_methods_of_models_are_documented() -> None:
    for name in ("NormalLinear", "OrdinalRegression", "XiSearchCV", "LinearAnchorRegression"):
        for method, function in inspect.getmembers(getattr(anchortm, name), inspect.isfunction):
            ours = function.__module__.startswith("anchortm") and not method.startswith("_")
            assert not ours or function.__doc__, f"{name}.{method}"


def test_fitted_attributes_are_documented() -> None:
    wine = anchortm.datasets.load_wine()
    cgd = anchortm.datasets.load_cgd()
    for model in (
        anchortm.OrdinalRegression.from_formula("rating ~ temp | judge", wine),
        anchortm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat | center", cgd),
        anchortm.ParametricSurvival.from_formula("Surv(tstop, status) ~ treat | center", cgd),
        anchortm.CoxPH.from_formula("Surv(tstop, status) ~ treat | center", cgd),
        anchortm.NormalLinear.from_formula("response ~ temp | judge", wine),
        anchortm.AnchorGLM.from_formula("response ~ temp | judge", wine),
    ):
        attributes = [name for name in vars(model) if name.endswith("_") and not name.startswith("_")]
        section = type(model).__doc__.split("Attributes\n")[1]
        missing = [name for name in attributes if not re.search(rf"^    (\w+, )*{name}\b", section, re.M)]
        assert not missing, f"{type(model).__name__} does not describe {missing}"


def test_every_public_name_is_on_a_page_of_the_reference() -> None:
    listed, text = set(), "\n".join(page.read_text() for page in sorted((DOCS / "api").glob("*.md")))
    for block in re.findall(r"```{eval-rst}\n(.*?)```", text, re.S):
        (module,) = re.findall(r"^\.\. currentmodule:: (\S+)$", block, re.M)
        listed |= {f"{module}.{name}" for name in re.findall(r"^   (\w+)$", block, re.M)}
    assert set(public_names()) == listed


def toctree(page: Path) -> list[Path]:
    """Return the pages that a page's tables of contents list."""
    entries = re.findall(r"^```{toctree}\n(.*?)^```", page.read_text(), re.M | re.S)
    names = [line for block in entries for line in block.splitlines() if line and not line.startswith(":")]
    return [(page.parent / f"{name}.md").resolve() for name in names]


def test_every_page_can_be_reached() -> None:
    reached, ahead = set(), [DOCS / "index.md"]
    while ahead:
        page = ahead.pop()
        reached.add(page)
        ahead += [path for path in toctree(page) if path.exists() and path not in reached]
    assert not set(pages()) - reached, "these pages are in no table of contents"


def guide() -> list[Path]:
    """Return the pages that the guide lists; those on fits across hospitals are written for other readers."""
    return [page for page in toctree(DOCS / "guide" / "index.md") if not page.stem.startswith("federated")]


def test_the_guide_lists_each_page_once_with_its_question() -> None:
    index = DOCS / "guide" / "index.md"
    listed = toctree(index)
    assert len(listed) == len(set(listed))
    assert {page for page in (DOCS / "guide").glob("*.md") if page != index} <= set(listed)
    lines = dict(re.findall(r"^- \[.*?\]\((.*?)\): (.*)$", index.read_text(), re.M))
    for page in guide():
        assert "?" in lines[os.path.relpath(page, index.parent)]


@pytest.mark.parametrize("page", guide(), ids=lambda page: page.stem)
def test_pages_of_the_guide_begin_with_their_question(page: Path) -> None:
    first = page.read_text().split("\n\n")[1]
    assert re.fullmatch(r"\*[^*].*\?\*", first, re.S), "write its question in italics below the title"


def anchors(page: Path) -> set[str]:
    """Return the names by which headings of a page are linked to, and labels."""
    headings = re.findall(r"^#{1,3} (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.M)
    slugs = {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r"^\((.+)\)=$", page.read_text(), re.M))


@pytest.mark.parametrize("page", [ROOT / "README.md", *pages()], ids=lambda page: page.stem)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", target):
            continue  # another site: make docs-links
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists() or file in WRITTEN, f"{page.name} links to {target}, which is not there"
        if anchor and file.suffix == ".md" and file.exists():
            assert anchor in anchors(file), f"{page.name} links to {target}: there is no such heading"


@pytest.mark.parametrize("page", [ROOT / "README.md", *pages()], ids=lambda page: page.stem)
def test_spelling_is_british(page: Path) -> None:
    """What codespell, part of make lint, does not look for."""
    words = "behavior|color|favor|neighbor|gray|modeling|labeled|artifact"
    american = rf"\b(?:{words})\w*|\b\w+(?:al|ar|ic|d|m)iz(?:e|ed|es|ing|ation)\b"
    text = re.sub(r"\]\([^)]*\)|<[^>]*>", "", prose(page))  # addresses are not ours to spell
    assert not re.findall(american, text, re.I)
