"""Results in notebooks: every result has HTML that is valid, escaped and short, with its chosen value in bold."""

import html.parser
import importlib
import inspect
import json
import math
import typing
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from paths import ROOT
from sklearn.preprocessing import StandardScaler

import anchortm as atm
from anchortm._util.html import FEW_ROWS, MOST_ROWS, Table, html_of, report
from anchortm.exceptions import AnchorTMWarning
from anchortm.federated import Coordinator, LocalSites, Site
from anchortm.inputs.response import as_response
from anchortm.models.pipeline import make_pipeline
from anchortm.predict import PiecewiseDistribution

EVIL = "<script>alert(1)</script>"
# Not results: what models are made of, what the engine computes with, settings and errors
FEDERATED = (ROOT / "src" / "anchortm" / "federated").glob("*.py")
PARTS = (
    *(f"federated.{file.stem}." for file in FEDERATED if file.stem != "assessment"),  # sites, coordinators and errors
    "_util.progress.",
    "bases.",
    "engine.",
    "exceptions.",
    "inputs.baselines.",
    "inputs.clusters.",
    "inputs.design.",
    "inputs.formula.column_kinds.",
    "inputs.response.rows.Kind",
    "inputs.splines.",
    "inputs.targets.",
    "inputs.two_terms.",
    "links.",
    "models.cox.PartialRows",
    "newplace.assessment.text.Part",  # of a page of text
    "newplace.conformal_fits.",  # what predictors keep
    "newplace.regressor.",  # strategies, and what they see
    "newplace.strategies.",
    "newplace.training.",
    "selection.left_out_result.Predicted",  # a tuple of results
    "predict.mean_rows.",
    "predict.new_rows.",
    "predict.partial_rows.",
    "predict.reading.",
    "predict.transformation.",
    "simulate.",  # ingredients of simulations, and tuples of arrays
)


class Parser(html.parser.HTMLParser):
    """Checks that tags are closed in order, and collects the text."""

    VOID = ("br", "hr", "img", "input", "meta", "link", "path", "rect")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows, self.bold, self.text, self.tags = 0, list[str](), "", set[str]()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        self.rows += tag == "tr"
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if "b" in self.open:
            self.bold.append(data)


def parsed(text: str) -> Parser:
    parser = Parser()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser


def public() -> set[type]:
    """Return all classes of this package that public functions, methods and properties return, and public classes."""
    found: set[type] = set()

    def visit(thing: Any) -> None:
        if inspect.isclass(thing) and thing not in found:
            found.add(thing)
            for name, member in inspect.getmembers(thing):
                if not name.startswith("_"):
                    returned(getattr(member, "fget", None) or getattr(member, "func", None) or member)
        elif inspect.isfunction(thing):
            returned(thing)

    def returned(call: Any) -> None:
        if inspect.isfunction(call) or inspect.ismethod(call):
            space = vars(inspect.getmodule(call)) | {"pd": pd, "Axes": Any}
            try:
                hint = typing.get_type_hints(call, space).get("return")
            except NameError:
                return
            for kind in classes(hint):
                if kind.__module__.startswith("anchortm"):
                    visit(kind)

    for name in json.loads((ROOT / "tests" / "snapshot" / "api.json").read_text()):
        visit(resolved(name))
    return found


def classes(hint: Any) -> Iterator[type]:
    if inspect.isclass(hint):
        yield hint
    for part in typing.get_args(hint):
        yield from classes(part)


def resolved(name: str) -> Any:
    module, _, last = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), last)
    except ImportError:
        return getattr(resolved(module), last)


RESULTS = sorted(
    (kind for kind in public() if not f"{kind.__module__}.{kind.__name__}".removeprefix("anchortm.").startswith(PARTS)),
    key=lambda kind: kind.__name__,
)


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    """Return an object of each class of results, whose names contain markup where users choose them."""
    rng = np.random.default_rng(0)
    n = 240
    site = rng.integers(0, 12, n)
    data = pd.DataFrame({"x": rng.normal(size=n) + 0.1 * site, "z": rng.normal(size=n)})
    data = data.rename(columns={"z": EVIL})
    y = data["x"] + 0.3 * site + rng.logistic(size=n)
    town = pd.Series([f"{EVIL}{k}" for k in site])
    time, event = np.exp(0.3 * y), rng.random(n) < 0.8
    surv, classes = atm.Surv(time, event), pd.cut(y, [-np.inf, 0, 2, np.inf], labels=["low", EVIL, "high"])
    logit = atm.ContinuousLogit(xi=1.0).fit(data, y, anchors=town)
    ordinal = atm.OrdinalRegression().fit(data, classes)
    hazards = atm.ProportionalHazards(order=3, log_first=True).fit(data, surv)
    cox, counts = atm.CoxPH().fit(data, surv), rng.poisson(2, n)
    glm = atm.AnchorGLM(family="poisson").fit(data, counts)
    clustered = data.assign(site=site)
    mixed = atm.OrdinalRegression(random={"site": ["1"]}).fit(clustered, np.minimum(counts, 3))
    mixed_glm = atm.AnchorGLM(family="poisson", random={"site": ["1"]}).fit(clustered, counts)
    boosted = atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=3).fit(data, y, anchors=town)
    smooth = pd.DataFrame({"x": data["x"], "y": y, "site": town})
    d, xis = atm.diagnostics, [0, 1, 10]
    path = atm.anchor_path(atm.NormalLinear(), data, y, town, xis)
    conformal = atm.ConformalPredictor(atm.NormalLinear(), 0.8).fit(data, y, environments=town)
    assessment = atm.assess(atm.NormalLinear(), data, y, town, strategies=["equal"]).with_outcomes(data, y)
    comparison = atm.compare_strategies(atm.NormalLinear(), data, y, town, design="like", strategies=["equal"])
    parents = atm.causal_parents(atm.NormalLinear(), data, y, town)
    sites = LocalSites([Site(smooth[k::4], f"s{k}") for k in range(4)])
    federated = Coordinator(sites, {"formula": "y ~ x | site"}).assess(atm.NormalLinear(), [0, 1])
    objects = [
        federated,
        federated.calibration,
        atm.model_report(logit, data, y, town),
        assessment,
        assessment.held_back,
        assessment.recommendation,
        assessment.recommendation.like,
        parents,
        parents.test(["x"]),
        parents.sensitivity(),
        atm.WorstEnvironment(atm.NormalLinear()).fit(data, y, environments=town),
        atm.Formula("y ~ x | site", smooth),
        surv,
        logit,
        boosted,
        cox,
        glm,
        ordinal,
        hazards,
        logit.summary(),
        make_pipeline(StandardScaler(), atm.NormalLinear()).fit(data, y),
        logit.predict_distribution(data),
        logit.predict_distribution(data.assign(x=data["x"].where(data["x"] > 0)), on_bad_rows="mark"),
        mixed.predict_distribution(clustered),
        cox.predict_distribution(data),
        glm.predict_distribution(data),
        mixed_glm.predict_distribution(clustered),
        atm.AnchorGLM(family="poisson").fit(data, counts, anchors=town).predict_distribution(data, place="new"),
        logit.bootstrap(5, random_state=0),
        boosted.bootstrap(3, random_state=0),
        hazards.confidence_band(data[:2], [1.0, 2.0], of="sf"),
        hazards.restricted_mean(data, 2.0, by=town),
        atm.likelihood_ratio_test(atm.NormalLinear().fit(data[["x"]], y), atm.NormalLinear().fit(data, y)),
        path,
        atm.leave_one_environment_out(atm.NormalLinear(), data, y, town, xis),
        atm.XiSearchCV(atm.NormalLinear(), xis).fit(data, y, anchors=town),
        atm.ElasticNetCV(atm.NormalLinear(), [0, 1], [0.1, 0.01]).fit(data, y, anchors=town),
        atm.SmoothSearchCV.from_formula(
            "y ~ s(x, 5) | site", smooth, model=atm.NormalLinear(), xis=[0, 1], smooths=[1, 0.1]
        ),
        atm.elastic_net_path(atm.NormalLinear(), data, y, town, [0, 1], n_lambdas=3),
        atm.xi_by_score_test(atm.NormalLinear(), data, y, site % 2),
        atm.marginal_effects(logit, data),
        atm.proportionality_test(atm.ContinuousLogit(), data, y),
        d.score_test(atm.NormalLinear(), data, y, town),
        d.first_stage(data, town),
        d.residual_invariance(atm.ContinuousLogit().fit(data, y), logit, data, y, town),
        d.over_identification(path, data),
        d.calibration(logit, data, y, town),
        atm.scores.score_table(logit, data, y, town),
        atm.diagnostics.location_shift(atm.NormalLinear(), data, y, town),
        comparison,
        comparison.verdict,
        conformal,
        conformal.coverage_by_place(),
        PiecewiseDistribution.from_quantiles(np.tile(np.arange(3.0), (n, 1)), [0.25, 0.5, 0.75]),
        atm.LinearAnchorRegression(2.0).fit(data, y, anchors=town),
        atm.AnchorBoosting(2.0, 3, base="tree").fit(data, y, anchors=town),
    ]
    found = {type(thing).__name__: thing for thing in objects}
    return found | {"classes": ordinal.predict_distribution(data), "labels": as_response(classes, "ordinal")}


@pytest.fixture(autouse=True)
def _no_warnings_about_few_clusters() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnchorTMWarning)
        yield


def test_there_are_many_results() -> None:
    assert len(RESULTS) > 35
    assert {atm.Response, atm.Formula, atm.XiSearchCV} <= set(RESULTS)


@pytest.mark.parametrize("kind", RESULTS, ids=lambda kind: kind.__name__)
def test_every_result_has_html(kind: type, shown: dict[str, Any]) -> None:
    """A new class of results fails here until it has ``_repr_html_``; see ``report`` in ``_util/html.py``."""
    assert callable(getattr(kind, "_repr_html_", None))
    thing = next((own for own in shown.values() if isinstance(own, kind)), None)
    if thing is None:  # models of one family share their HTML
        assert issubclass(kind, sklearn.base.BaseEstimator)
        thing = kind() if kind.__name__ != "AnchorBoostedTM" else kind(atm.NormalLinear())
    text = thing._repr_html_()
    own = text if not isinstance(thing, sklearn.base.BaseEstimator) else html_of(thing._found())
    found = parsed(own)
    assert EVIL not in own
    assert "script" not in found.tags
    assert found.rows <= 3 * (MOST_ROWS + 2)
    assert len(own) < 20_000
    if thing in shown.values():
        assert found.tags >= {"p", "table"}


@pytest.mark.parametrize("name", ["classes", "labels"])
def test_classes_are_escaped(name: str, shown: dict[str, Any]) -> None:
    text = shown[name]._repr_html_()
    assert EVIL not in text
    assert "&lt;script&gt;" in text
    parsed(text)


def test_searches_show_their_choice_in_bold(shown: dict[str, Any]) -> None:
    for name in ("XiSearchCV", "ElasticNetCV", "SmoothSearchCV"):
        search = shown[name]
        found = parsed(html_of(search._found()))
        title, *row = found.bold
        assert f"xi = {search.best_xi_:g}" in title
        best = tuple(getattr(search, f"best_{own}_") for own in search._by)
        objective = search.results_.objective.loc[best if len(best) > 1 else best[0]]
        assert row[: len(best) + 1] == [*(f"{value:g}" for value in best), f"{objective:.5g}"]
        assert "sk-top-container" in search._repr_html_()


def test_a_chosen_row_beyond_the_first_ones_is_shown(shown: dict[str, Any]) -> None:
    frame = pd.DataFrame({"xi": np.arange(100.0) + 0.5})
    found = parsed(report("rule", Table(frame, chosen=[77])))
    assert found.bold == ["rule", "77.5"]
    assert found.rows == MOST_ROWS + 1
    rule = shown["InvarianceRule"]
    assert f"{rule.xi:.5g}" in parsed(rule._repr_html_()).bold


def test_estimators_show_the_diagram_and_below_it_the_summary(shown: dict[str, Any]) -> None:
    assert atm.ContinuousLogit()._found() is None
    before = atm.ContinuousLogit()._repr_html_()
    model = shown["ContinuousLogit"]
    text = model._repr_html_()
    assert "sk-top-container" in before
    assert text.index("sk-top-container") < text.index("odds ratio")
    assert model._repr_mimebundle_()["text/html"].count("odds ratio") == 1
    with sklearn.config_context(display="text"):
        assert list(model._repr_mimebundle_()) == ["text/plain"]
    for name in ("AnchorBoostedTM", "LinearAnchorRegression", "AnchorBoosting", "XiSearchCV"):
        assert "<table>" in html_of(shown[name]._found())
        assert "sk-top-container" in shown[name]._repr_html_()


def test_long_results_are_cut(shown: dict[str, Any]) -> None:
    rows = np.arange(10_000.0)
    text = atm.Surv(rows + 1.0, rows % 2)._repr_html_()
    assert "... 10 000 rows in all" in text
    assert parsed(text).rows == FEW_ROWS + 1
    assert "... 240 rows in all" in shown["PredictedDistribution"]._repr_html_()
    wide = report("wide", pd.DataFrame(np.zeros((2, 50))))
    assert "... 50 columns in all" in wide
    assert wide.count("<td>") == 28


@pytest.mark.parametrize(
    ("outcome", "texts"),
    [
        (lambda: atm.Surv([5.0, 8.0], [1, 0]), ["5", "8+"]),
        (lambda: atm.Interval([2, 3, -math.inf], [5, 3, 4.5]), ["(2, 5]", "3", "(-inf, 4.5]"]),
        (lambda: as_response([0, 1, 7], "count"), ["0", "1", "7"]),
        (lambda: as_response(pd.Categorical(["b", "a"], ["b", "a"], ordered=True), "ordinal"), ["b", "a"]),
    ],
    ids=["times", "intervals", "counts", "classes"],
)
def test_outcomes_as_text(outcome: Callable[[], Any], texts: list[str]) -> None:
    found = parsed(outcome()._repr_html_())
    for text in texts:
        assert text in found.text
    assert outcome()._texts() == texts


def test_marked_rows_show_their_reasons(shown: dict[str, Any]) -> None:
    found = parsed(shown["MarkedDistribution"]._repr_html_())
    assert "reason" in found.text
    assert "x is missing" in found.text


def test_rows_have_the_labels_of_their_table() -> None:
    data = atm.datasets.load_wine()[:30]
    model = atm.OrdinalRegression.from_formula("rating ~ temp + contact", data)
    found = parsed(model.predict_distribution(data[:2].set_axis(["Merlot", "Syrah"]))._repr_html_())
    assert "Merlot" in found.text


def test_cells() -> None:
    index = pd.MultiIndex.from_tuples([("a", 1.0), ("b", 2.5)], names=["site", "xi"])
    frame = pd.DataFrame({"nll": [math.nan, 1.23456789], "pvalue": [0.000123456, 1.0], "n": [3.0, 1e12]}, index=index)
    text = report("cells\nsecond line", frame, "a note", "")
    for part in ("<td></td>", "1.2346", "<td>0.000123</td>", "<td>3</td>", "1e+12", "<th>2.5</th>", "cells<br>second"):
        assert part in text
    assert text.count("<p>") == 2
    assert "\\x1b" in report("\x1b[31m")
    assert "<th>" not in report("plain", pd.DataFrame({"a": [1]})).replace("<th>a</th>", "")
