"""What bad input gets: an error of ours that names the culprit and a remedy, and nothing else has changed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import anchortm as atm
from anchortm.exceptions import (
    AnchorTMError,
    IdentificationError,
    InputError,
    InputTypeError,
    MissingValueError,
    ModelFileError,
    OverIdentifiedError,
    SeparationError,
    UnavailableError,
)
from anchortm.inference import Bootstrap
from anchortm.inputs.response import Response

N = 120
rng = np.random.default_rng(0)
SITE = rng.integers(0, 4, N)
A = rng.normal(size=N)
X = np.column_stack([rng.normal(size=N) + SITE, rng.normal(size=N)])
Y = X @ [1.0, 0.5] + rng.logistic(size=N)
TIME, EVENT = np.exp(Y / 3), rng.integers(0, 2, N)
CLASSES, COUNTS = np.digitize(Y, [0.0, 1.5]), np.floor(2 * TIME)
FRAME = pd.DataFrame({"age": X[:, 0], "dose": X[:, 1]})
TABLE = FRAME.assign(y=Y, site=SITE.astype(str))
ONES = np.ones(N)
HUGE = 10**400
LOGIT, LINEAR, ORDINAL, COUNT = atm.ContinuousLogit, atm.NormalLinear, atm.OrdinalRegression, atm.CountRegression
ANCHORED = LOGIT(xi=1.0)
MISSING = "drop or impute such rows"
ROWS = "pass the same rows of both"
OUTCOME = {ORDINAL: CLASSES, COUNT: COUNTS, atm.ParametricSurvival: TIME}


def put(values: Any, where: Any, value: Any) -> np.ndarray:
    """Return a copy with one value that does not belong there."""
    array = np.array(values, dtype=float if isinstance(value, float) else object)
    array[where] = value
    return array


def masked(values: np.ndarray) -> np.ndarray:
    """Return the values with the third and later rows masked, whatever stands there."""
    mask = np.zeros(values.shape, dtype=bool)
    mask[3:5] = True
    return np.ma.array(values, mask=mask)


# name: (model, arguments of fit that differ from good ones, error, culprit and remedy in its message)
FITS: dict[str, tuple[Any, dict[str, Any], type[Exception], str]] = {
    "missing in X": (
        LOGIT(),
        {"X": put(X, (3, 1), np.nan)},
        MissingValueError,
        f"NaN: .* in x1, first at row 3; {MISSING}",
    ),
    "missing in a frame": (
        LOGIT(),
        {"X": FRAME.assign(dose=put(A, 5, np.nan))},
        MissingValueError,
        f"in dose.* 5; {MISSING}",
    ),
    "None in a frame": (
        LOGIT(),
        {"X": FRAME.assign(dose=put(A, 5, None))},
        MissingValueError,
        f"in dose.* 5; {MISSING}",
    ),
    "NA in a frame": (
        LOGIT(),
        {"X": FRAME.assign(dose=pd.array(put(A, 5, np.nan), dtype="Float64"))},
        MissingValueError,
        f"in dose.* 5; {MISSING}",
    ),
    "null in polars": (
        LOGIT(),
        {"X": pl.DataFrame({"a": [None, *A[1:]], "b": A**2})},
        MissingValueError,
        f"in a.*; {MISSING}",
    ),
    "missing in sparse X": (
        LOGIT(),
        {"X": sp.csr_matrix(put(X, (3, 1), np.nan))},
        MissingValueError,
        "in x1, at row 3; drop",
    ),
    "missing outcome": (
        LOGIT(),
        {"y": put(Y, 7, np.nan)},
        MissingValueError,
        f"y has a missing value: nan at row 7; {MISSING}",
    ),
    "None as outcome": (
        LOGIT(),
        {"y": put(Y, 7, None)},
        MissingValueError,
        f"y has a missing value: None at row 7; {MISSING}",
    ),
    "no outcome": (LOGIT(), {"y": None}, InputError, r"the target y is None: fit\(X, y\)"),
    "missing class": (
        ORDINAL(),
        {"y": put(CLASSES, 3, np.nan)},
        MissingValueError,
        f"missing class: nan at row 3; {MISSING}",
    ),
    "missing anchor": (
        ANCHORED,
        {"anchors": put(A, 2, np.nan)},
        MissingValueError,
        f"anchor is nan at row 2; {MISSING}",
    ),
    "missing name of an anchor": (
        ANCHORED,
        {"anchors": pd.DataFrame({"town": put(SITE.astype(str), 2, None)})},
        MissingValueError,
        "anchor 'town' is missing at row 2; drop such rows",
    ),
    "missing category of an anchor": (
        ANCHORED,
        {"anchors": pd.Series(pd.Categorical(put(SITE.astype(str), 2, None)), name="town")},
        MissingValueError,
        "anchor 'town' is missing at row 2; drop such rows",
    ),
    "missing weight": (
        LOGIT(),
        {"sample_weight": put(ONES, 2, np.nan)},
        MissingValueError,
        "sample_weight is nan at row 2.*drop",
    ),
    "missing offset": (
        LOGIT(),
        {"offset": put(ONES, 2, np.nan)},
        MissingValueError,
        "offset is nan at row 2.*drop or repair",
    ),
    "infinite X": (LOGIT(), {"X": put(X, (3, 1), np.inf)}, InputError, f"infinity in x1, first at row 3; {MISSING}"),
    "infinite outcome": (LOGIT(), {"y": put(Y, 7, np.inf)}, InputError, "y is infinite: inf at row 7; .* use Surv"),
    "infinite anchor": (ANCHORED, {"anchors": put(A, 2, np.inf)}, InputError, f"anchor is inf at row 2; {MISSING}"),
    "infinite weight": (
        LOGIT(),
        {"sample_weight": put(ONES, 2, np.inf)},
        InputError,
        "sample_weight is inf at row 2.*drop",
    ),
    "infinite offset": (LOGIT(), {"offset": put(ONES, 2, -np.inf)}, InputError, "offset is -inf at row 2.*drop"),
    "fewer rows of X": (LOGIT(), {"X": X[:-1]}, InputError, f"X has 119 rows, but y has 120: {ROWS}"),
    "fewer anchors": (ANCHORED, {"anchors": SITE[:-1]}, InputError, f"anchors has 119 rows, but y has 120: {ROWS}"),
    "anchors of two lengths": (ANCHORED, {"anchors": [SITE, A[:-1]]}, InputError, "119, 120.*one value for each row"),
    "fewer weights": (
        LOGIT(),
        {"sample_weight": ONES[1:]},
        InputError,
        "sample_weight has shape .119.*one number for each",
    ),
    "weights in a column": (
        LOGIT(),
        {"sample_weight": ONES[:, None]},
        InputError,
        "shape .120, 1.*one number for each row",
    ),
    "more offsets": (LOGIT(), {"offset": np.ones(N + 1)}, InputError, "offset has shape .121.*one number for each row"),
    "words in X": (LOGIT(), {"X": X.astype(str)}, InputTypeError, "X is not numeric.*get_dummies"),
    "a column of words": (
        LOGIT(),
        {"X": FRAME.assign(dose="a")},
        InputTypeError,
        "'dose' is not numeric.*'a'.*get_dummies",
    ),
    "a column of categories": (
        LOGIT(),
        {"X": FRAME.assign(dose=pd.Categorical(SITE))},
        InputTypeError,
        "'dose' is a category.*get_dummies",
    ),
    "a column of dates": (
        LOGIT(),
        {"X": FRAME.assign(dose=pd.Timestamp("2020-01-01"))},
        InputTypeError,
        "'dose'.*the time stamp 2020-01-01.* at row 0; turn it into numbers, such as days since",
    ),
    "a column of dates in a time zone": (
        LOGIT(),
        {"X": FRAME.assign(dose=pd.Timestamp("2020-01-01", tz="UTC"))},
        InputTypeError,
        "'dose'.*the time stamp 2020-01-01.* at row 0; turn it into numbers, such as days since",
    ),
    "words as outcome": (LOGIT(), {"y": Y.astype(str)}, InputTypeError, "y must be numbers, not '.* at row 0; turn it"),
    "one word as outcome": (
        LOGIT(),
        {"y": put(Y, 4, "high")},
        InputTypeError,
        "not 'high' at row 4; turn it .* or drop",
    ),
    "categories as outcome": (
        LOGIT(),
        {"y": pd.Categorical(CLASSES)},
        InputTypeError,
        "categories; .* use OrdinalRegression",
    ),
    "dates as outcome": (
        LOGIT(),
        {"y": pd.date_range("2020", periods=N)},
        InputTypeError,
        "y must be numbers, not the time stamp 2020-01-01.*turn it into numbers, such as days",
    ),
    "dates in a time zone as outcome": (
        LOGIT(),
        {"y": pd.Series(pd.date_range("2020", periods=N, tz="UTC"))},
        InputTypeError,
        "y must be numbers, not the time stamp 2020-01-01.*turn it into numbers, such as days",
    ),
    "words as weights": (
        LOGIT(),
        {"sample_weight": np.full(N, "a")},
        InputTypeError,
        "sample_weight must be .*'a'.*astype",
    ),
    "words as offset": (
        LOGIT(),
        {"offset": np.full(N, "a")},
        InputTypeError,
        "offset must be numbers, not 'a'.*astype",
    ),
    "complex X": (LOGIT(), {"X": X + 1j}, InputError, "Complex data.*X must be real"),
    "complex outcome": (LOGIT(), {"y": Y + 1j}, InputError, "Complex data.*y must be real"),
    "complex anchors": (ANCHORED, {"anchors": A + 1j}, InputTypeError, "anchor is complex; .* real numbers"),
    "dates as anchors": (
        ANCHORED,
        {"anchors": pd.date_range("2020", periods=N)},
        InputTypeError,
        "time stamp; turn it",
    ),
    "dates in a time zone as anchors": (
        ANCHORED,
        {"anchors": pd.Series(pd.date_range("2020", periods=N, tz="UTC"))},
        InputTypeError,
        "time stamp; turn it",
    ),
    "complex objects as anchors": (
        ANCHORED,
        {"anchors": pd.Series(A + 1j).astype(object)},
        InputTypeError,
        "anchor is complex; .* real numbers",
    ),
    "complex objects in X": (
        LOGIT(),
        {"X": FRAME.assign(dose=pd.Series(list(A + 1j), dtype=object))},
        InputError,
        "Complex data.*'dose' must be real.*take",
    ),
    "complex weights": (LOGIT(), {"sample_weight": ONES + 1j}, InputError, "Complex data.*sample_weight must.*take"),
    "complex offset": (LOGIT(), {"offset": ONES + 1j}, InputError, "Complex data.*offset must be real.*take"),
    "masked X": (LOGIT(), {"X": masked(X)}, MissingValueError, r"2 columns: covariate 'x0' \(2 rows\), covariate 'x1'"),
    "missing everywhere": (
        ANCHORED,
        {
            "X": FRAME.assign(dose=put(A, 5, np.nan)),
            "y": put(Y, 7, np.nan),
            "anchors": put(A, 2, np.nan),
            "sample_weight": put(ONES, 1, np.nan),
            "offset": put(ONES, 7, np.nan),
        },
        MissingValueError,
        r"5 columns: covariate 'dose' \(1 row\), outcome \(1 row\), anchor \(1 row\), sample_weight \(1 row\), offset "
        r'\(1 row\); impute them, or fit with \w+\(missing="drop"\), which leaves out 4 of 120 rows',
    ),
    "all rows missing": (
        LOGIT(missing="drop"),
        {"X": FRAME.assign(dose=np.nan)},
        InputError,
        r"no rows are left: each of the 120 rows has a missing value, covariate 'dose' \(120 rows\); leave such",
    ),
    "an infinite value is not missing": (
        LOGIT(missing="drop"),
        {"X": put(put(X, (1, 0), np.nan), (3, 1), np.inf)},
        InputError,
        "infin.* in x1, first at row 3",
    ),
    "an unknown way with missing values": (
        LOGIT(missing="impute"),
        {},
        InputError,
        'missing must be "error" or "drop", n',
    ),
    "no missing": (LOGIT(missing=None), {}, InputError, 'missing must be "error" or "drop", not None'),
    "masked outcome": (
        LOGIT(),
        {"y": masked(Y)},
        MissingValueError,
        f"y has a missing value: None at row 3.*; {MISSING}",
    ),
    "masked anchors": (
        ANCHORED,
        {"anchors": masked(SITE)},
        MissingValueError,
        "anchor is missing at row 3; drop such rows",
    ),
    "masked numeric anchors": (
        ANCHORED,
        {"anchors": [SITE, masked(A)]},
        MissingValueError,
        "'anchor1' is missing at row 3; d",
    ),
    "masked weights": (
        LOGIT(),
        {"sample_weight": masked(ONES)},
        MissingValueError,
        f"sample_w.* None at row 3; {MISSING}",
    ),
    "masked offset": (
        LOGIT(),
        {"offset": masked(ONES)},
        MissingValueError,
        f"offset must be .* None at row 3; {MISSING}",
    ),
    "tuples as anchors": (
        ANCHORED,
        {"anchors": [(int(site),) for site in SITE]},
        InputTypeError,
        r"a list of tuples such as \(\d,\), which may be rows or columns: pass np.array",
    ),
    "tuples in a column of anchors": (
        ANCHORED,
        {"anchors": pd.Series([(int(site), 1) for site in SITE])},
        InputTypeError,
        r"anchor has entries such as \(\d, 1\): give one number or word for each row",
    ),
    "a huge number in X": (LOGIT(), {"X": put(X, (4, 1), HUGE)}, InputError, "X has a number beyond .* at row 4.*resc"),
    "a huge number in a frame": (
        LOGIT(),
        {"X": FRAME.assign(dose=pd.Series(put(A, 4, HUGE), dtype=object))},
        InputError,
        "'dose' has a number beyond 1.8e308 at row 4.*rescale",
    ),
    "a huge outcome": (LOGIT(), {"y": put(Y, 4, HUGE)}, InputError, "y has a number beyond 1.8e308 at row 4.*rescale"),
    "a huge weight": (
        LOGIT(),
        {"sample_weight": put(ONES, 4, HUGE)},
        InputError,
        "sample_weight has .* row 4.*rescale",
    ),
    "a huge offset": (LOGIT(), {"offset": put(ONES, 4, HUGE)}, InputError, "offset has a number .* row 4.*rescale"),
    "a huge xi": (LOGIT(xi=HUGE), {"anchors": SITE}, InputError, "xi is beyond 1.8e308.* use a smaller .* math.inf"),
    "a huge alpha": (
        atm.AnchorGLM(family="negative_binomial", alpha=HUGE),
        {"y": COUNTS},
        InputError,
        "alpha must be a positive number or 'ml', not 1000",
    ),
    "a huge support": (LOGIT(support=(0, HUGE)), {}, InputError, "support is beyond 1.8e308.* use a smaller"),
    "weights that underflow": (
        LOGIT(),
        {"sample_weight": np.full(N, 1e-320)},
        InputError,
        "sample_weight sums to 1.2e-318.*divide the weights by their mean",
    ),
    "weights that overflow": (
        LOGIT(),
        {"sample_weight": np.full(N, 1e307)},
        InputError,
        "sample_weight sums to inf.*divide the weights by their mean",
    ),
    "intervals without ends": (
        LOGIT(),
        {"y": atm.Interval(np.full(N, -np.inf), np.full(N, np.inf))},
        IdentificationError,
        r"no row says anything .* all 120 are \(-inf, inf\).*the right columns",
    ),
    "negative counts": (
        COUNT(),
        {"y": put(COUNTS, 3, -1.0)},
        InputError,
        "count is negative: -1.0 at row 3; counts are 0",
    ),
    "fractions as counts": (
        COUNT(),
        {"y": put(COUNTS, 3, 1.5)},
        InputError,
        "not a whole number: 1.5 at row 3; round it",
    ),
    "counts beyond doubles": (
        COUNT(),
        {"y": put(COUNTS, 3, 1e17)},
        InputError,
        r"beyond 2\^53.* at row 3; use a model",
    ),
    "words as counts": (COUNT(), {"y": COUNTS.astype(str)}, InputTypeError, "count must be numbers, not .*; turn it"),
    "times as counts": (COUNT(), {"y": atm.Surv(TIME, EVENT)}, InputTypeError, "Surv is for times.* use Interval"),
    "times as classes": (
        ORDINAL(),
        {"y": atm.Surv(TIME, EVENT)},
        InputTypeError,
        "an ordinal model takes classes, not",
    ),
    "unordered classes": (ORDINAL(), {"y": pd.Categorical(CLASSES)}, InputTypeError, "need an order: .*ordered=True"),
    "classes of two types": (ORDINAL(), {"y": put(CLASSES, 3, "a")}, InputTypeError, "cannot be sorted: use one type"),
    "a single class": (ORDINAL(), {"y": ONES}, InputError, "at least two classes, not only .1.0"),
    "a structured outcome without event": (
        LOGIT(),
        {"y": np.zeros(N, dtype=[("a", float), ("b", float)])},
        InputTypeError,
        "one boolean .event. and one numeric",
    ),
    "time and event as columns": (
        LOGIT(),
        {"y": np.column_stack([TIME, EVENT])},
        InputError,
        r"pass Surv\(time, event\)",
    ),
    "an outcome of three columns": (
        LOGIT(),
        {"y": np.column_stack([Y, Y, Y])},
        InputError,
        "one-dimensional, not .*120, 3",
    ),
    "a number as outcome": (LOGIT(), {"y": 3.0}, InputError, "y must be one-dimensional"),
    "negative weights": (
        LOGIT(),
        {"sample_weight": put(ONES, 3, -1.0)},
        InputError,
        "negative: -1.0 at row 3; .*0 drops them",
    ),
    "weights all zero": (
        LOGIT(),
        {"sample_weight": 0 * ONES},
        InputError,
        "all sample weights are zero: at least one row",
    ),
    "xi without anchors": (ANCHORED, {}, InputError, r"xi = 1 needs anchors: pass fit\(.*or use xi=0"),
    "infinite xi without anchors": (LOGIT(xi=math.inf), {}, InputError, "xi = inf needs anchors: pass"),
    "xi is not a number": (
        LOGIT(xi=math.nan),
        {"anchors": SITE},
        InputError,
        "xi must be at least 0, not nan; only NormalL",
    ),
    "negative xi": (LOGIT(xi=-0.2), {"anchors": SITE}, InputError, "at least 0, not -0.2; only NormalLinear"),
    "xi below -1/2": (LINEAR(xi=-0.6), {"anchors": SITE}, InputError, "xi must be at least -0.5, not -0.6"),
    "a word as xi": (LOGIT(xi="1"), {"anchors": SITE}, InputTypeError, "xi must be a number, not '1'"),
    "True as xi": (LOGIT(xi=True), {"anchors": SITE}, InputTypeError, "xi must be a number, not True"),
    "several xi": (LOGIT(xi=[1.0]), {"anchors": SITE}, InputTypeError, "xi must be a number, not .1.0"),
    "negative xi of censored rows": (
        LINEAR(xi=-0.2),
        {"y": atm.Interval(Y, np.where(EVENT, Y, np.inf)), "anchors": SITE},
        InputError,
        "a negative xi needs NormalLinear with exact rows",
    ),
    "order 0": (LOGIT(order=0), {}, InputError, "order must be from 1 to 50, not 0; 6 is the usual"),
    "order of a million": (LOGIT(order=10**6), {}, InputError, "from 1 to 50, not 1000000; 6 is the usual"),
    "a fraction as order": (LOGIT(order=1.5), {}, InputTypeError, "order must be a whole number from 1 to 50, not 1.5"),
    "a word as order": (LOGIT(order="6"), {}, InputTypeError, "whole number from 1 to 50, not '6'"),
    "support of one number": (LOGIT(support=3), {}, InputTypeError, "support must be a pair .low, high., not 3"),
    "support of three": (LOGIT(support=(1, 2, 3)), {}, InputTypeError, "support must be a pair"),
    "support backwards": (LOGIT(support=(2, 1)), {}, InputError, "with low < high, not .2, 1"),
    "support of no width": (LOGIT(support=(1, 1)), {}, InputError, "with low < high, not .1, 1"),
    "infinite support": (LOGIT(support=(0, np.inf)), {}, InputError, "a finite pair .*, not .0, inf"),
    "words as support": (LOGIT(support=("a", "b")), {}, InputTypeError, "support must be a number, not 'a'"),
    "support elsewhere": (LOGIT(support=(1e6, 2e6)), {}, InputError, "does not overlap y, which lies between"),
    "negative support in log y": (
        LOGIT(support=(-1, 2), log_first=True),
        {"y": TIME},
        InputError,
        "must be positive .* use log_first=False",
    ),
    "negative outcome in log y": (
        LOGIT(log_first=True),
        {},
        InputError,
        "y is -.* in many rows, .* above 0; take a baseline in y .log_first=False",
    ),
    "negative outcome of times": (
        atm.ParametricSurvival(),
        {"y": Y},
        InputError,
        "y is -.* at row .* above 0; take a baseline in y",
    ),
    "unknown extrapolation": (LOGIT(extrapolate="cubic"), {}, InputError, "'linear' or 'natural', not 'cubic'"),
    "unknown link": (atm.AnchorTM(link="cauchit"), {}, InputError, "unknown link 'cauchit'; choose one of probit"),
    "unknown basis": (atm.AnchorTM(basis="spline"), {}, InputError, "basis must be 'bernstein'.*not 'spline'"),
    "unknown distribution": (
        atm.ParametricSurvival(dist="gamma"),
        {"y": TIME},
        InputError,
        "one of weibull.*not 'gamma'",
    ),
    "log_first that is no flag": (LOGIT(log_first="yes"), {}, InputTypeError, "True or False, not 'yes'"),
    "tol 0": (LOGIT(tol=0), {}, InputError, "tol must be a number between 0 and 1, not 0"),
    "a word as tol": (LOGIT(tol="a"), {}, InputTypeError, "tol must be a number, not 'a'"),
    "max_iter 0": (LOGIT(max_iter=0), {}, InputError, "max_iter must be a whole number of at least 1, not 0"),
    "a fraction as max_iter": (LOGIT(max_iter=2.5), {}, InputError, "max_iter must be a whole number .* not 2.5"),
    "n_jobs 0": (LOGIT(n_jobs=0), {}, InputError, "n_jobs must be a whole number other than 0 .-1: all cores"),
    "a word as n_jobs": (LOGIT(n_jobs="2"), {}, InputError, "n_jobs must be .* not '2'"),
    "negative n_restarts": (
        LOGIT(n_restarts=-1),
        {},
        InputError,
        "n_restarts must be a whole number of at least 0, not -1",
    ),
    "a word as random_state": (
        LOGIT(random_state="a"),
        {},
        InputTypeError,
        "random_state must be a whole number .* not 'a'",
    ),
    "a word as verbose": (
        LOGIT(verbose="loud"),
        {},
        InputError,
        "verbose must be a whole number of at least 0, not 'loud'",
    ),
    "a word as flag": (
        LOGIT(anchor_intercept="no"),
        {},
        InputTypeError,
        "anchor_intercept must be True or False, not 'no'",
    ),
    "a number as start": (LOGIT(start=3), {}, InputTypeError, "start must be a pair .baseline, coef., not 3"),
    "a start of other lengths": (LOGIT(start=([1], [2])), {}, InputError, "lengths 7 and 2, not 1 and 1"),
    "words as start": (LOGIT(start=(["a"], ["b"])), {}, InputTypeError, "start must be numbers, not 'a'"),
    "a missing start": (
        LOGIT(start=([np.nan] * 7, [0, 0])),
        {},
        InputError,
        "start has values that are not finite; start=N",
    ),
    "a start of other shapes": (
        LINEAR(start=([[0.0, 1.0]], [[0.0, 0.0]])),
        {},
        InputError,
        r"start must be .* of lengths 2 and 2, not shape \(1, 2\) and shape \(1, 2\)",
    ),
    "a falling baseline as start": (
        LOGIT(start=(-np.arange(7.0), [0.0, 0.0])),
        {},
        InputError,
        "not finite at start.*baseline must increase.*start=None",
    ),
    "unknown anchor_names": (
        LOGIT(xi=1.0, anchor_names=["z"]),
        {"X": FRAME},
        InputError,
        "not in X: z; its columns are age",
    ),
    "positions beyond X": (LOGIT(xi=1.0, anchor_names=[5]), {}, InputError, "column positions from 0 to 1"),
    "a fraction as anchor_names": (
        LOGIT(xi=1.0, anchor_names=3.5),
        {},
        InputTypeError,
        "names or positions .* not 3.5",
    ),
    "anchors twice": (
        LOGIT(xi=1.0, anchor_names=[1]),
        {"anchors": SITE},
        InputError,
        "anchors to fit, or anchor_names .*not both",
    ),
    "a constant covariate": (
        LOGIT(),
        {"X": FRAME.assign(unit=3)},
        IdentificationError,
        "constant covariates: unit; leave",
    ),
    "a covariate twice": (
        LOGIT(),
        {"X": FRAME.assign(age2=X[:, 0])},
        IdentificationError,
        "collinear .*: age, age2; leave one",
    ),
    "a sum of covariates": (
        LOGIT(),
        {"X": FRAME.assign(all=X.sum(axis=1))},
        IdentificationError,
        "age, dose, all; leave one",
    ),
    "names twice": (LOGIT(), {"X": pd.DataFrame(X, columns=["a", "a"])}, InputError, "occur more than once: a; rename"),
    "names of anchors twice": (
        ANCHORED,
        {"anchors": pd.DataFrame(np.column_stack([SITE, SITE]), columns=["g", "g"])},
        InputError,
        "occur more than once: g, g; rename",
    ),
    "all right-censored": (
        LOGIT(),
        {"y": atm.Surv(TIME, 0 * EVENT)},
        IdentificationError,
        "120 rows are right-censored.*at least",
    ),
    "all left-censored": (
        LOGIT(),
        {"y": atm.Interval(np.full(N, -np.inf), Y)},
        IdentificationError,
        "120 rows are left-censored.*at least one row",
    ),
    "a constant outcome": (
        LOGIT(),
        {"y": ONES},
        InputError,
        "y is constant: all rows are at 1; .* at least two values",
    ),
    "one row": (
        LOGIT(),
        {"X": X[:1], "y": Y[:1]},
        IdentificationError,
        "n_samples = 1: .* cannot be estimated from one row",
    ),
    "one row that counts": (LOGIT(), {"sample_weight": put(0 * ONES, 3, 1.0)}, IdentificationError, "n_samples = 1"),
    "no rows": (LOGIT(), {"X": X[:0], "y": Y[:0]}, InputError, "y is empty: at least one row"),
    "separation": (
        ORDINAL(),
        {"y": (X[:, 0] > 0).astype(int)},
        SeparationError,
        "separation: .*x0.*leave a covariate out",
    ),
    "too many covariates": (
        LOGIT(),
        {"X": rng.normal(size=(N, N))},
        IdentificationError,
        "120 covariates for 120 rows.*leave",
    ),
    "y among the covariates": (
        LOGIT(),
        {"y": X @ [1.0, 2.0]},
        SeparationError,
        "explain y without error .*: leave them out",
    ),
    "y explained by all": (
        LINEAR(xi=-0.5),
        {"y": X.sum(axis=1) + SITE, "anchors": SITE},
        OverIdentifiedError,
        "without error",
    ),
    "an over-identified limit": (
        LINEAR(xi=math.inf),
        {"X": X[:, :1], "anchors": SITE},
        OverIdentifiedError,
        "3 parameters .* 4 anchor directions.* use a large finite xi",
    ),
    "X of one dimension": (LOGIT(), {"X": X[:, 0]}, InputError, r"Expected 2D array, got 1D.*reshape\(-1, 1\)"),
    "X of three dimensions": (LOGIT(), {"X": X[:, :, None]}, InputError, "Expected 2D array, got 3D"),
    "a dictionary as X": (LOGIT(), {"X": {"a": 1}}, InputError, "Expected 2D array"),
    "a number as anchors": (
        ANCHORED,
        {"anchors": 3},
        InputTypeError,
        "anchors must be an array.* not 3; .* anchor_names",
    ),
    "a word as anchors": (ANCHORED, {"anchors": "town"}, InputTypeError, "not 'town'; to name columns .* anchor_names"),
    "anchors without columns": (
        ANCHORED,
        {"anchors": pd.DataFrame(index=range(N))},
        InputError,
        "no columns: pass at least",
    ),
    "anchors of three dimensions": (ANCHORED, {"anchors": np.zeros((N, 2, 2))}, InputError, "one or two dimensions"),
}


def frozen(value: Any) -> str:
    """Return a text of all that a value holds."""
    if isinstance(value, Response):
        return frozen([value.lower, value.upper])
    if isinstance(value, dict):
        return repr({key: frozen(inner) for key, inner in value.items()})
    return repr(value.toarray().tolist() if sp.issparse(value) else [np.asarray(part).tolist() for part in [value]])


def check_error(error: Exception, wanted: type[Exception], message: str) -> None:
    assert type(error) is wanted, repr(error)
    assert isinstance(error, AnchorTMError)
    assert isinstance(error, (ValueError, TypeError))
    assert re.search(message, str(error), re.DOTALL), str(error)
    assert len(str(error)) < 1000


@pytest.mark.parametrize("name", FITS)
def test_a_fit_that_is_refused_changes_nothing(name: str, tally, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    model, arguments, wanted, message = FITS[name]
    given = {"X": X, "y": OUTCOME.get(type(model), Y)} | arguments
    before = {key: frozen(value) for key, value in given.items() if not isinstance(value, list)}
    fresh, used = clone(model), type(model)().fit(X, OUTCOME.get(type(model), Y))
    used.set_params(**model.get_params(deep=False))
    for estimator in (fresh, used):
        held = dict(vars(estimator))
        with pytest.raises(AnchorTMError) as caught:
            estimator.fit(**given)
        check_error(caught.value, wanted, message)
        assert vars(estimator).keys() == held.keys()
        assert all(vars(estimator)[key] is value for key, value in held.items())
        tally("bad input", "fits refused, model and data left as they were")
    assert not hasattr(fresh, "coef_")
    assert {key: frozen(given[key]) for key in before} == before
    assert list(tmp_path.iterdir()) == []


FITTED = LOGIT(order=3).fit(FRAME, Y)
GRADES = ORDINAL().fit(FRAME, CLASSES)
BY_FORMULA = LOGIT.from_formula("y ~ age + site", TABLE)
BY_NAME = LOGIT(xi=1.0, anchor_names="site").fit(FRAME.assign(site=SITE), Y)
DIST, CLASS_DIST = FITTED.predict_distribution(FRAME[:3]), GRADES.predict_distribution(FRAME[:3])
DRAWS = FITTED.bootstrap(3, clusters=np.arange(N), random_state=0)
PREDICTIONS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "picture of no rows": (lambda: DIST.plot(most=0), InputError, "most must be .*at least 1"),
    "picture of half a row": (lambda: DIST.plot(most=1.5), InputError, "most must be a whole number"),
    "picture of a mean": (lambda: DIST.plot(of="mean"), InputError, "of must be one of pdf, cdf, sf, .*not 'mean'"),
    "picture with few labels": (lambda: DIST.plot(labels=["a"]), InputError, "labels has 1 names for 3 rows"),
    "draws of an unknown parameter": (
        lambda: DRAWS.plot(parameters=["age", "height"]),
        InputError,
        "parameters must be some of .*age, dose, not height",
    ),
    "draws of no parameter": (lambda: DRAWS.plot(parameters=[]), InputError, "parameters must be some of .*, not none"),
    "draws at a level beyond 1": (lambda: DRAWS.plot(level=95), InputError, "level must be a number between 0 and 1"),
    "draws on too few axes": (lambda: DRAWS.plot([None]), InputError, "1 axes were given for 2 parameters: pass one"),
    "bootstrap with a word for progress": (
        lambda: FITTED.bootstrap(3, clusters=np.arange(N), progress="no"),
        InputTypeError,
        "progress must be True, False or None",
    ),
    "a column less": (lambda: FITTED.predict(FRAME[["age"]]), InputError, "1 features, .* expecting 2 .*: age, dose"),
    "a column more": (
        lambda: FITTED.predict(FRAME.assign(z=1.0)),
        InputError,
        "3 features, .* expecting 2 .*: age, dose",
    ),
    "another order": (lambda: FITTED.predict(FRAME[["dose", "age"]]), InputError, "got dose, age; select them by name"),
    "missing": (
        lambda: FITTED.predict(FRAME.assign(dose=np.nan)),
        MissingValueError,
        f"in dose, first at row 0; {MISSING}",
    ),
    "words": (lambda: FITTED.predict(FRAME.assign(dose="a")), InputTypeError, "'dose' is not numeric.*get_dummies"),
    "one dimension": (lambda: FITTED.predict(X[0]), InputError, "Expected 2D array.*reshape"),
    "no X": (lambda: FITTED.predict(None), InputError, "0 features, .* expecting 2 .*: age, dose"),
    "an unseen level": (
        lambda: BY_FORMULA.predict(TABLE.assign(site="9")),
        InputError,
        "'site' has levels .*: 9 .120 rows, first at row 0.; known: 0",
    ),
    "a column of the formula less": (
        lambda: BY_FORMULA.predict(TABLE[["age"]]),
        InputError,
        "no column 'site'.* are age",
    ),
    "a way with bad rows that is none": (
        lambda: BY_FORMULA.predict(TABLE, on_bad_rows="skip"),
        InputError,
        'on_bad_rows must be "error" or "mark", not \'skip\'',
    ),
    "bad rows as a flag": (
        lambda: FITTED.predict_distribution(FRAME, on_bad_rows=True),
        InputError,
        'on_bad_rows must be "error" or "mark", not True',
    ),
    "a way with unknown levels that is none": (
        lambda: BY_FORMULA.predict_distribution(TABLE, unknown="mode"),
        InputError,
        'unknown must be "error", "baseline" or "rare", not \'mode\'',
    ),
    "missing beside unknown levels": (
        lambda: BY_FORMULA.predict(TABLE.assign(age=put(A, 5, np.nan)), unknown="rare"),
        InputError,
        "1 of 120 rows cannot be predicted: age is missing .1 row, first row 5.; repair or drop .*mark",
    ),
    "a column less, marked": (
        lambda: BY_FORMULA.predict(TABLE[["age"]], on_bad_rows="mark"),
        InputError,
        "no column 'site'.* are age",
    ),
    "other columns, marked": (
        lambda: FITTED.predict(FRAME.rename(columns={"age": "years"}), on_bad_rows="mark"),
        InputError,
        "expected age, dose; got years, dose",
    ),
    "a column more in an array, marked": (
        lambda: FITTED.predict(np.column_stack([X, A]), on_bad_rows="mark"),
        InputError,
        "3 features, .* expecting 2",
    ),
    "one dimension, marked": (lambda: FITTED.predict(X[0], on_bad_rows="mark"), InputError, "Expected 2D .*reshape"),
    "a category, marked": (
        lambda: FITTED.predict(FRAME.assign(age=pd.Categorical(["a"] * N)), on_bad_rows="mark"),
        InputTypeError,
        "'age' is a category: code it as numbers",
    ),
    "dates, marked": (
        lambda: BY_FORMULA.predict(TABLE.assign(age=pd.Timestamp("2020-01-01")), on_bad_rows="mark"),
        InputTypeError,
        "'age' must be numbers, not the time stamp .* days since a date",
    ),
    "an offset of another length, marked": (
        lambda: FITTED.predict(FRAME, offset=ONES[:3], on_bad_rows="mark"),
        InputError,
        "offset has shape .3.*each row",
    ),
    "marked probabilities of another shape": (
        lambda: FITTED.predict_distribution(FRAME, on_bad_rows="mark").cdf(np.ones((2, 2))),
        InputError,
        r"of shape \(120, k\), not \(2, 2\)",
    ),
    "marked, given seven times": (
        lambda: FITTED.predict_distribution(FRAME, on_bad_rows="mark").given(np.ones(7)),
        InputError,
        "one for each of the 120 rows, not .7",
    ),
    "a competitor that marks rows": (
        lambda: atm.predict_table(
            atm.LinearAnchorRegression().fit(FRAME, Y), FRAME.assign(age=np.nan), on_bad_rows="mark"
        ),
        InputTypeError,
        "LinearAnchorRegression cannot mark rows or map levels: repair or drop such rows",
    ),
    "two reasons in a table": (
        lambda: atm.predict_table(BY_FORMULA, TABLE.assign(reason=""), keep=["reason"], on_bad_rows="mark"),
        InputError,
        "two columns 'reason': rename the one to keep",
    ),
    "words for numbers": (
        lambda: BY_FORMULA.predict(TABLE.assign(age="a")),
        InputTypeError,
        "'age' was numbers in the fit.*'a'",
    ),
    "no covariate beside anchor_names": (
        lambda: BY_NAME.predict(FRAME[["age"]]),
        InputError,
        "expecting 2 .*: age, dose",
    ),
    "offset of another length": (
        lambda: FITTED.predict(FRAME, offset=ONES[:3]),
        InputError,
        "offset has shape .3.*each row",
    ),
    "outcome of another length": (lambda: FITTED.nll(FRAME, Y[:-1]), InputError, f"120 rows, but y has 119: {ROWS}"),
    "an unknown class": (
        lambda: GRADES.nll(FRAME, put(CLASSES, 0, 9.0)),
        InputError,
        "9.0 at row 0; known are .0, 1, 2",
    ),
    "a missing outcome": (lambda: FITTED.nll(FRAME, put(Y, 0, np.nan)), MissingValueError, f"nan at row 0; {MISSING}"),
    "negative weights": (
        lambda: FITTED.score(FRAME, Y, -ONES),
        InputError,
        "sample_weight is negative: .* 0 drops them",
    ),
    "a word where y belongs": (lambda: DIST.cdf("a"), InputTypeError, "y must be numbers, not 'a'"),
    "None where y belongs": (lambda: DIST.cdf(None), InputTypeError, "y must be numbers, not None"),
    "y of another shape": (lambda: DIST.cdf(np.ones((2, 2))), InputError, r"vector or of shape \(3, k\), not \(2, 2\)"),
    "y of three dimensions": (lambda: DIST.pdf(np.ones((3, 2, 2))), InputError, r"not \(3, 2, 2\)"),
    "a probability of 1.5": (lambda: DIST.ppf([0.5, 1.5]), InputError, r"must lie in \[0, 1\], not 1.5"),
    "a negative tail": (lambda: DIST.isf(-0.1), InputError, r"must lie in \[0, 1\], not -0.1"),
    "probabilities of another shape": (
        lambda: DIST.ppf(np.ones((2, 2))),
        InputError,
        r"of shape \(3, k\), not \(2, 2\)",
    ),
    "probabilities of another shape, given survival": (
        lambda: DIST.given(0.0).ppf(np.ones((2, 2))),
        InputError,
        r"of shape \(3, k\), not \(2, 2\)",
    ),
    "a word as probability": (lambda: DIST.ppf("a"), InputTypeError, "q must be numbers, not 'a'"),
    "a level of 1.5": (lambda: DIST.interval(1.5), InputError, "level must be a number from 0 to 1, not 1.5"),
    "a word as level": (lambda: DIST.interval("a"), InputTypeError, "level must be a number, not 'a'"),
    "-1 draws": (lambda: DIST.rvs(-1), InputError, "size must be a whole number of at least 0, not -1"),
    "half a draw": (lambda: DIST.rvs(1.5), InputError, "size must be a whole number of at least 0, not 1.5"),
    "a word as seed": (
        lambda: DIST.rvs(1, random_state="a"),
        InputTypeError,
        "random_state must be .* Generator or None",
    ),
    "given a word": (lambda: DIST.given("a"), InputTypeError, "after must be numbers, not 'a'"),
    "given seven times": (lambda: DIST.given(np.ones(7)), InputError, "one for each of the 3 rows, not .7"),
    "mass of what has density": (lambda: DIST.pmf(1.0), InputTypeError, "no pmf; use pdf"),
    "classes of what has none": (lambda: DIST.probabilities(), InputTypeError, "ordinal outcomes; use pmf for counts"),
    "mode of what has density": (lambda: DIST.mode(), InputTypeError, "mode.. is for discrete"),
    "cdf of an unknown class": (lambda: CLASS_DIST.cdf(7), InputError, "unknown class 7; known are .0, 1, 2"),
    "mean of classes": (lambda: CLASS_DIST.mean(), InputTypeError, "classes have no mean"),
    "an unknown covariance": (
        lambda: FITTED.covariance("x"),
        InputError,
        "one of hessian, sandwich, bootstrap, not 'x'",
    ),
    "clusters of another length": (
        lambda: FITTED.covariance("sandwich", SITE[:3]),
        InputError,
        "clusters has 3 rows, .* 120",
    ),
    "missing clusters": (
        lambda: FITTED.covariance("sandwich", put(A, 0, np.nan)),
        MissingValueError,
        f"clusters is nan.*; {MISSING}",
    ),
    "numbers as clusters": (
        lambda: FITTED.covariance("sandwich", A),
        InputError,
        "clusters must be one column of names.*int",
    ),
    "a single cluster": (lambda: FITTED.covariance("sandwich", 0 * SITE), InputError, "a single cluster"),
    "an interval of 150 %": (
        lambda: FITTED.intervals(level=1.5),
        InputError,
        "level must be a number between 0 and 1, not 1.5",
    ),
    "a summary of level a": (lambda: FITTED.summary(level="a"), InputTypeError, "level must be a number, not 'a'"),
    "no bootstrap": (lambda: FITTED.bootstrap(n_bootstrap=0), InputError, "n_bootstrap must be .* at least 2, not 0"),
    "bootstrap by no workers": (lambda: FITTED.bootstrap(3, n_jobs=0), InputError, "n_jobs must be .* other than 0"),
    "a band of what": (
        lambda: FITTED.confidence_band(FRAME[:1], [0.0], "x"),
        InputError,
        "'cdf', 'sf' or 'ppf', not 'x'",
    ),
    "a quantile of 1.5": (lambda: FITTED.confidence_band(FRAME[:1], [1.5], "ppf"), InputError, "between 0 and 1"),
    "a median survival of 1.5": (lambda: FITTED.survival_quantiles(FRAME[:1], 1.5), InputError, "between 0 and 1"),
    "a restricted mean up to -1": (
        lambda: FITTED.restricted_mean(FRAME[:1], -1.0),
        InputError,
        "tau must be a finite time above 0, not -1.0",
    ),
    "a restricted mean of what is no time": (
        lambda: FITTED.restricted_mean(FRAME[:1], 1.0),
        InputError,
        "restricted means are for times",
    ),
    "a restricted mean by too few labels": (
        lambda: FITTED.restricted_mean(FRAME[:3], 1.0, by=["a", "b"]),
        InputError,
        "by has 2 labels for 3 rows",
    ),
    "AIC of a penalised fit": (
        lambda: BY_NAME.aic_,
        UnavailableError,
        "compare penalised fits by left-out environments",
    ),
}


@pytest.mark.parametrize("name", PREDICTIONS)
def test_a_question_that_is_refused_changes_nothing(name: str, tally) -> None:
    call, wanted, message = PREDICTIONS[name]
    models = (FITTED, GRADES, BY_FORMULA, BY_NAME)
    held = [dict(vars(model)) for model in models]
    with pytest.raises(AnchorTMError) as caught:
        call()
    check_error(caught.value, wanted, message)
    for model, before in zip(models, held, strict=True):
        assert vars(model).keys() == before.keys()
        assert all(vars(model)[key] is value for key, value in before.items())
    tally("bad input", "questions to fitted models refused")


def path(xis: Any, model: Any = None, anchors: Any = SITE) -> Callable[[], Any]:
    return lambda: atm.anchor_path(LOGIT() if model is None else model, X, Y, anchors, xis)


def loeo(xis: Any = (0.0,), environments: Any = SITE, **options: Any) -> Callable[[], Any]:
    return lambda: atm.leave_one_environment_out(options.pop("model", LOGIT()), X, Y, environments, xis, **options)


def moved(model: Any = None, environments: Any = SITE, **options: Any) -> Callable[[], Any]:
    given = {"X": X, "y": Y} | options
    return lambda: atm.diagnostics.location_shift(
        LOGIT() if model is None else model, environments=environments, **given
    )


def search(model: Any = None, xis: Any = (0.0, 1.0), **options: Any) -> Callable[[], Any]:
    return lambda: atm.XiSearchCV(LOGIT() if model is None else model, xis, **options).fit(X, Y, anchors=SITE)


NO_XIS = r"xis must be a sequence of at least one number, such as \[0, 1, 10\]"
NO_MODEL = r"model must be an estimator of this package, such as NormalLinear\(\)"
CALLS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "setting of progress by a word": (lambda: atm.set_progress("no"), InputTypeError, "shown must be True, False or"),
    "left-out fits with progress by a word": (loeo(progress="no"), InputTypeError, "progress must be True, False or"),
    "search with progress by a number": (search(progress=2), InputTypeError, "progress must be True, False or None"),
    "path with progress by a number": (
        lambda: atm.anchor_path(LOGIT(), X, Y, SITE, [0, 1], progress=0),
        InputTypeError,
        "progress must be True, False or None",
    ),
    "missing time": (
        lambda: atm.Surv(put(TIME, 3, np.nan), EVENT),
        MissingValueError,
        f"time .* nan at row 3; {MISSING}",
    ),
    "infinite time": (
        lambda: atm.Surv(put(TIME, 3, np.inf), EVENT),
        InputError,
        "time is infinite: inf at row 3; .*use Surv",
    ),
    "negative time": (
        lambda: atm.Surv(put(TIME, 3, -1.0), EVENT),
        InputError,
        "negative: -1.0 at row 3; .* use Interval",
    ),
    "missing event": (
        lambda: atm.Surv(TIME, put(EVENT, 3, np.nan)),
        MissingValueError,
        f"event .* nan at row 3; {MISSING}",
    ),
    "event 2": (
        lambda: atm.Surv(TIME, put(EVENT, 3, 2.0)),
        InputError,
        "event is not 0 or 1: 2.0 at row 3; .*; code it 1",
    ),
    "event yes": (
        lambda: atm.Surv(TIME, np.where(EVENT, "yes", "no")),
        InputTypeError,
        "not text; its values are 'no', 'yes'",
    ),
    "fewer events": (
        lambda: atm.Surv(TIME, EVENT[1:]),
        InputError,
        "event has 119 rows where 120 .* one value for each row",
    ),
    "fewer entries": (
        lambda: atm.Surv(TIME, EVENT, TIME[1:]),
        InputError,
        "entry has 119 rows .* one value for each row",
    ),
    "entry at the end": (
        lambda: atm.Surv(TIME, EVENT, TIME),
        InputError,
        "entry is not before the time: .* must enter before",
    ),
    "missing end": (lambda: atm.Interval(put(Y, 3, np.nan), Y), MissingValueError, f"lower .* nan at row 3; {MISSING}"),
    "ends swapped": (lambda: atm.Interval(Y, Y - 1.0), InputError, "lower > upper: .* at row 0 .*; swap the ends"),
    "fewer ends": (lambda: atm.Interval(Y, Y[1:]), InputError, "upper has 119 rows .* one value for each row"),
    "exact at infinity": (
        lambda: atm.Interval(put(Y, 3, np.inf), put(Y, 3, np.inf)),
        InputError,
        "exact at infinity: inf at row 3; .* finite",
    ),
    "entry after the outcome": (
        lambda: atm.Interval(Y, Y, entry=Y + 1),
        InputError,
        "entry is not before the outcome.*drop",
    ),
    "exit before the outcome": (
        lambda: atm.Interval(Y, Y, exit=Y - 1),
        InputError,
        "exit is not after the outcome.*drop",
    ),
    "a path of nothing": (path([]), InputError, NO_XIS),
    "a path of words": (path("ab"), InputError, f"{NO_XIS}, not 'ab'"),
    "a path of None": (path(None), InputError, f"{NO_XIS}, not None"),
    "a path with a word": (path([1, "a"]), InputError, NO_XIS),
    "a path of a table": (path([[0.0, 1.0]]), InputError, NO_XIS),
    "a path below 0": (path([0.0, -1.0]), InputError, "xi must be at least 0, not -1.0; only NormalLinear"),
    "a path with a missing xi": (path([math.nan]), InputError, "at least 0, not nan"),
    "a path of no model": (path([0.0], "x"), InputTypeError, f"{NO_MODEL}, not 'x'"),
    "a path of a class": (path([0.0], LOGIT), InputTypeError, f"{NO_MODEL}, not <class"),
    "a path without anchors": (path([0.0, 1.0], anchors=None), InputError, "a path in xi needs anchors: pass them"),
    "left out at no xi": (loeo([]), InputError, NO_XIS),
    "left out at None": (loeo(None), InputError, NO_XIS),
    "left out at words": (loeo("ab"), InputError, NO_XIS),
    "left out below 0": (loeo([-1.0]), InputError, "at least 0, not -1.0"),
    "numbers as environments": (
        loeo(environments=A),
        InputError,
        r"need cut=k, .* if they are names, use astype\(str\)",
    ),
    "a single environment": (loeo(environments=0 * SITE), InputError, "a single environment: no rows remain"),
    "two columns of environments": (
        loeo(environments=np.column_stack([SITE, SITE])),
        InputError,
        "one column: join several",
    ),
    "a missing environment": (
        loeo(environments=put(A, 1, np.nan), cut=3),
        MissingValueError,
        f"environments is nan.*; {MISSING}",
    ),
    "fewer environments": (loeo(environments=SITE[1:]), InputError, f"environments has 119 rows, .* {ROWS}"),
    "cut once": (loeo(environments=A, cut=1), InputError, "cut=1 gives a single environment; cut at 2 or more"),
    "left out by no workers": (loeo(n_jobs=0), InputError, "n_jobs must be .* other than 0"),
    "left out: a column that is constant everywhere": (
        lambda: atm.leave_one_environment_out(LOGIT(), FRAME.assign(same=1.0), Y, SITE, [0.0]),
        IdentificationError,
        "^constant covariates: same; leave them out",
    ),
    "left out: strata that are the environments": (
        lambda: atm.leave_one_environment_out(
            LOGIT(strata="s"), FRAME.assign(s=SITE % 2), Y, SITE % 2, [0.0], anchors=SITE
        ),
        InputError,
        "no environment can be predicted by the others; environment 0: .* stratum 0. Merge .* or leave strata out",
    ),
    "a search in strata that are the environments": (
        lambda: atm.XiSearchCV(LOGIT(strata="s"), [0.0, 1.0]).fit(
            FRAME.assign(s=SITE % 2), Y, anchors=SITE, environments=SITE % 2
        ),
        InputError,
        "no environment can be predicted by the others",
    ),
    "left out: one class elsewhere": (
        lambda: atm.leave_one_environment_out(
            atm.OrdinalRegression(), X, np.where(SITE == 0, np.arange(120) % 3, 0), SITE, [0.0]
        ),
        InputError,
        "without environment 0: an ordinal outcome needs at least two classes, not only",
    ),
    "a covariance of draws that lack levels": (
        lambda: Bootstrap(
            np.array([[1.0, np.nan], [2.0, np.nan], [3.0, 1.0], [4.0, np.nan]]), np.zeros(2), ("a", "b"), "rows", 0
        ).covariance(),
        IdentificationError,
        "b: only 1 of 4 resampled data sets identify all parameters, .* merge rare levels, leave them out",
    ),
    "left out of no model": (loeo(model="a"), InputTypeError, f"{NO_MODEL}, not 'a'"),
    "a shift between four places": (moved(), InputError, "there are 4 environments: .* needs at least 6"),
    "a shift between no places": (moved(environments=None), InputError, "pass the environments, one for each row"),
    "a shift between fewer places": (moved(environments=SITE[1:]), InputError, f"environments has 119 rows, .* {ROWS}"),
    "a shift between numbers": (
        moved(environments=A),
        InputError,
        r"need cut=k, .* if they are names, use astype\(str\)",
    ),
    "a shift of no covariates": (moved(X=None), InputError, "there are no covariates: .* pass at least one"),
    "a shift of missing values": (
        moved(X=put(X, (3, 1), np.nan)),
        MissingValueError,
        f"NaN: .* in x1, .* 3; {MISSING}",
    ),
    "a shift of no model": (moved("a"), InputTypeError, f"{NO_MODEL}, not 'a'"),
    "a shift of trees": (moved(atm.AnchorBoostedTM(LOGIT())), InputError, "takes linear models, not boosted ones"),
    "a shift of an unfinished fit": (
        moved(LOGIT(max_iter=1), environments=np.arange(N) % 8),
        InputError,
        "did not converge: raise max_iter",
    ),
    "a shift with no flips": (moved(n_flips=0), InputError, "n_flips must be a whole number of at least 19, not 0"),
    "an unknown objective": (
        search(objective="best"),
        InputError,
        "'worst', 'mean' or a number between 0 and 1, not 'best'",
    ),
    "an objective of 1.5": (search(objective=1.5), InputError, "'worst', 'mean' or a number between 0 and 1, not 1.5"),
    "a search of no model": (search("a"), InputTypeError, f"{NO_MODEL}, not 'a'"),
    "a search without xi": (search(xis=[]), InputError, NO_XIS),
    "a search without places": (
        lambda: atm.XiSearchCV(LOGIT()).fit(X, Y),
        InputError,
        "pass anchors=, or environments=",
    ),
    "gamma below 0": (lambda: atm.xi_from_gamma(-1), InputError, "gamma must be at least 0, not -1"),
    "a word as gamma": (lambda: atm.xi_from_gamma("a"), InputTypeError, "gamma must be a number, not 'a'"),
    "gamma of xi -2": (lambda: atm.gamma_from_xi(-2.0), InputError, "xi must be at least -1/2, not -2"),
    "gamma of quantile 1.5": (lambda: atm.gamma_from_quantile(1.5), InputError, r"alpha must be in \[0, 1\), not 1.5"),
    "negative gamma": (
        lambda: atm.LinearAnchorRegression(-1.0).fit(X, Y, anchors=SITE),
        InputError,
        "gamma must be a number of at least 0 .1 is least squares., not -1",
    ),
    "gamma without anchors": (
        lambda: atm.LinearAnchorRegression(2.0).fit(X, Y),
        InputError,
        "gamma = 2 needs anchors: pass",
    ),
    "boosting without steps": (
        lambda: atm.AnchorBoosting(1.0, n_estimators=0).fit(X, Y, anchors=SITE),
        InputError,
        "n_estimators must be a whole number of at least 1, not 0",
    ),
    "boosting backwards": (
        lambda: atm.AnchorBoosting(1.0, learning_rate=-1).fit(X, Y, anchors=SITE),
        InputError,
        r"learning_rate must lie in \(0, 1\], not -1",
    ),
    "saving what is no model": (
        lambda: atm.save(3, "model.json"),
        InputTypeError,
        "save needs a model of this package, or a pipeline that ends in one, not int",
    ),
    "saving as text": (lambda: atm.save(FITTED, "model.txt"), InputError, "must end in .json, not model.txt"),
    "saving nowhere": (
        lambda: atm.save(FITTED, "no/model.json"),
        InputError,
        "cannot write model.json: the folder .*no does not exist",
    ),
    "loading what is not there": (lambda: atm.load("no.json"), ModelFileError, "cannot read no.json: No such file"),
    "loading a number": (lambda: atm.load(3), InputTypeError, "load needs the path of a file written by save, not 3"),
}
FORMULAS: dict[str, str] = {
    "": "a formula is 'outcome ~ covariates | anchors' with one '~'",
    "y": "a formula is 'outcome ~ covariates | anchors' with one '~', not 'y'",
    "~ age": "a formula is 'outcome ~ covariates | anchors'",
    "log(y ~ age": "a formula is 'outcome ~ covariates | anchors'",
    "y ~": "nothing between '~' and .* write 1 for no covariates",
    "y ~ nope": "no column 'nope' in the data; its columns are age, dose",
    "nope ~ age": "no column 'nope' in the data; its columns are age, dose",
    "y ~ age | nope": "no column 'nope' in the data; its columns are age, dose",
    "y ~ age |": "there are no anchors after",
    "y ~ age | site | site": "at most one .*; join anchors with '.'",
    "y ~ age | age*dose": "anchors are columns joined by '.', or 0 for none, not 'age.dose'",
    "y ~ age | C(age, dose)": "anchors are columns joined by",
    "y ~ y": "outcome's columns are among the covariates: y; leave them out",
    "y ~ age | y": "outcome's columns are among the anchors: y; leave them out",
    "y + age ~ dose": r"the outcome 'y \+ age' should be a column, Surv\(time, event\)",
    "Foo(y) ~ age": r"the outcome 'Foo\(y\)' should be a column, Surv",
    "Surv(y) ~ age": r"should be Surv\(time, event, entry=None\)",
    "Surv(y, age, dose, 3) ~ age": r"should be Surv\(time, event, entry=None\)",
    "y ~ age +": "cannot read 'age .' in the formula .*backticks",
    "y ~ (age": "cannot read '.age' in the formula .*backticks",
    "y ~ age ** 'a'": "powers of terms are whole numbers from 1 to 10",
    "y ~ __import__('os')": "'__import__' is not a function of formulas; available are C, I",
    "y ~ open('x')": "'open' is not a function of formulas; available are C, I",
    "y ~ age.__class__": "is not a term of a formula.*backticks",
    "y ~ bs(age, df='a')": "cannot evaluate the covariates: .*bs.age",
}
TABLES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a number as formula": (lambda: LOGIT.from_formula(3, TABLE), InputTypeError, "a formula is a string such as"),
    "a list as table": (
        lambda: LOGIT.from_formula("y ~ age", [1, 2]),
        InputTypeError,
        "a table with named columns .*list",
    ),
    "no table": (lambda: LOGIT.from_formula("y ~ age", None), InputTypeError, "a table with named columns .*NoneType"),
    "no file": (lambda: LOGIT.from_formula("y ~ age", "no.parquet"), InputError, "no file or folder no.parquet"),
    "no rows": (lambda: LOGIT.from_formula("y ~ age", TABLE[:0]), InputError, "y is empty: at least one row"),
    "missing covariate": (
        lambda: LOGIT.from_formula("y ~ age", TABLE.assign(age=put(A, 4, np.nan))),
        MissingValueError,
        f"'age' is missing in 1 row, first at row 4; {MISSING}",
    ),
    "missing anchor": (
        lambda: LOGIT.from_formula("y ~ age | site", TABLE.assign(site=put(TABLE.site, 4, None)), xi=1.0),
        MissingValueError,
        f"'site' is missing in 1 row, first at row 4; {MISSING}",
    ),
    "columns twice": (
        lambda: LOGIT.from_formula("y ~ age", pd.concat([TABLE, TABLE], axis=1)),
        InputError,
        "more than once: age",
    ),
    "unknown weights": (
        lambda: LOGIT.from_formula("y ~ age", TABLE, sample_weight="w"),
        InputError,
        "no column 'w' .* are age",
    ),
    "words as offset": (
        lambda: LOGIT.from_formula("y ~ age", TABLE, offset="site"),
        InputTypeError,
        "offset must be numbers",
    ),
    "a single level": (
        lambda: LOGIT.from_formula("y ~ age + site", TABLE.assign(site="a")),
        InputError,
        "'site' .*: leave it out",
    ),
    "levels that look alike": (
        lambda: LOGIT.from_formula("y ~ age + site", TABLE.assign(site=pd.Categorical([1, "1"] * 60))),
        InputError,
        "levels that look alike, such as 1 and '1': make them one",
    ),
    "numbers with a typing error": (
        lambda: LOGIT.from_formula("y ~ age", TABLE.assign(age=put(A, 4, "1,5").astype(str))),
        InputError,
        "'age' is text, but nearly all .* correct the others, such as '1,5'",
    ),
    "a huge whole number": (
        lambda: LOGIT.from_formula("y ~ age", TABLE.assign(age=pd.Series(put(A, 4, HUGE), dtype=object))),
        InputError,
        "age.* beyond 1.8e308.*rescale",
    ),
    "a column called _q0 for a dot": (
        lambda: LOGIT.from_formula("y ~ .", TABLE[["y", "age"]].assign(_q0=A)),
        InputError,
        "columns of a formula cannot be called _q0: rename them",
    ),
    "a backtick in a name for a dot": (
        lambda: LOGIT.from_formula("y ~ .", TABLE[["y", "age"]].assign(**{"a`b": A})),
        InputError,
        "columns of a formula cannot be called a`b: rename them",
    ),
    "whole numbers beyond 64 bits": (
        lambda: LOGIT.from_formula("y ~ n", pl.DataFrame({"y": Y, "n": pl.Series([2**70] * N, dtype=pl.Int128)})),
        InputError,
        "column 'n' has whole numbers beyond 64 bits: cast it to Float64",
    ),
    "complex covariate in new rows": (
        lambda: LOGIT.from_formula("y ~ age", TABLE).predict(TABLE.assign(age=A + 1j)),
        InputError,
        "Complex data.*'age' must be real; take",
    ),
    "complex outcome in new rows": (
        lambda: LOGIT.from_formula("y ~ age", TABLE).nll(TABLE.assign(y=A + 1j)),
        InputError,
        "Complex data.*'y' must be real; take",
    ),
}

COMPLEX = {
    f"complex {role} of a formula": (
        lambda formula=formula, extra=extra: LOGIT.from_formula(formula, TABLE.assign(z=A + 1j), **extra),
        InputError,
        "Complex data.*'z' must be real; take",
    )
    for role, formula, extra in (
        ("covariate", "y ~ z", {}),
        ("term", "y ~ log(z)", {}),
        ("outcome", "z ~ age", {}),
        ("time", "Surv(z, age) ~ dose", {}),
        ("anchor", "y ~ age | z", {"xi": 1.0}),
        ("number as anchor", "y ~ age | N(z)", {"xi": 1.0}),
        ("stratum", "y | z ~ age", {}),
        ("cluster", "y ~ age + (1 | z)", {}),
        ("weight", "y ~ age", {"sample_weight": "z"}),
        ("offset", "y ~ age", {"offset": "z"}),
    )
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_is_refused_leaves_no_file(name: str, tally, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    call, wanted, message = CALLS[name]
    with pytest.raises(AnchorTMError) as caught:
        call()
    check_error(caught.value, wanted, message)
    assert list(tmp_path.iterdir()) == []
    tally("bad input", "other calls refused")


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_formula_that_is_refused(formula: str, tally) -> None:
    before = TABLE.copy()
    with pytest.raises(AnchorTMError) as caught:
        LOGIT.from_formula(formula, TABLE, xi=float("|" in formula))
    check_error(caught.value, InputError, FORMULAS[formula])
    pd.testing.assert_frame_equal(TABLE, before)
    tally("bad input", "formulas and tables refused")


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_is_refused(name: str, tally) -> None:
    check_refusal(*TABLES[name])
    tally("bad input", "formulas and tables refused")


@pytest.mark.bug("other software", "complex columns in formulas lost their imaginary parts")
@pytest.mark.parametrize("name", COMPLEX)
def test_a_complex_column_is_refused(name: str, tally) -> None:
    check_refusal(*COMPLEX[name])
    tally("bad input", "formulas and tables refused")


def check_refusal(call, wanted: type[AnchorTMError], message: str) -> None:
    with pytest.raises(AnchorTMError) as caught:
        call()
    check_error(caught.value, wanted, message)


@pytest.mark.bug("other software", "masks of anchors, weights and offsets were ignored")
def test_masks_are_not_ignored() -> None:
    """What stands behind a mask does not count, so the fit cannot go on as if it did."""
    for name, values in {"anchors": SITE, "sample_weight": ONES, "offset": ONES}.items():
        with pytest.raises((InputError, InputTypeError), match=f"{name.removesuffix('s')}.* row 3; drop"):
            LOGIT(xi=1.0).fit(X, Y, **{"anchors": SITE, name: masked(values)})


@pytest.mark.bug("other software", "whole numbers too large for a double ended in an OverflowError")
def test_numbers_beyond_doubles_are_refused() -> None:
    for model, table in ((LOGIT(xi=HUGE), X), (LOGIT(), put(X, (4, 1), HUGE))):
        with pytest.raises(InputError, match=r"beyond 1\.8e308"):
            model.fit(table, Y, anchors=SITE)


def test_a_model_that_is_not_fitted_says_so(tally) -> None:
    for ask in (lambda m: m.predict(X), lambda m: m.summary(), lambda m: m.aic_, lambda m: atm.save(m, "model.json")):
        with pytest.raises(NotFittedError, match="Call 'fit'"):
            ask(LOGIT())
        tally("bad input", "questions to fitted models refused")


def test_a_search_that_fails_is_not_half_fitted() -> None:
    searched = atm.XiSearchCV(LOGIT(order=3), [0.0, 1.0])
    with pytest.raises(InputError):
        searched.fit(X, put(Y, 0, np.nan), anchors=SITE)
    assert set(vars(searched)) == set(searched.get_params(deep=False))


@pytest.mark.bug("bad input", "numbers spelled as words were taken as weights and offsets")
def test_words_that_spell_numbers_are_no_numbers() -> None:
    for argument in ({"offset": SITE.astype(str)}, {"sample_weight": (1 + SITE).astype(str).astype(object)}):
        with pytest.raises(InputTypeError, match="must be numbers, not '"):
            LOGIT().fit(X, Y, **argument)


@pytest.mark.bug("bad input", "anchor_intercept='no' was taken as True")
def test_a_word_is_no_flag() -> None:
    with pytest.raises(InputTypeError, match="anchor_intercept must be True or False"):
        LOGIT(xi=1.0, anchor_intercept="no").fit(X, Y, anchors=SITE)


@pytest.mark.bug("bad input", "the outcome was taken as its own anchor")
def test_the_outcome_is_no_anchor() -> None:
    data = TABLE.assign(time=TIME, event=EVENT)
    with pytest.raises(InputError, match="among the anchors: event, time"):
        LOGIT.from_formula("Surv(time, event) ~ age | event + time", data, xi=1.0)


@pytest.mark.bug("bad input", "a summary with an impossible level dropped its intervals without a word")
def test_a_summary_refuses_a_level_that_is_none() -> None:
    with pytest.raises(InputError, match="level must be a number between 0 and 1, not 95"):
        FITTED.summary(level=95)


def test_the_entry_that_is_no_number_is_named() -> None:
    for values, culprit, kind in (
        ([2.0, 3.0, "1"], "'1' at row 2", InputTypeError),
        ([np.nan, "1", "b"], "'b' at row 2", InputTypeError),
        ([1.0, None], "None at row 1", MissingValueError),
    ):
        with pytest.raises(kind, match=f"sample_weight must be numbers, not {culprit}"):
            LOGIT().fit(X[: len(values)], Y[: len(values)], sample_weight=np.array(values, dtype=object))
