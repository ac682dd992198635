"""Convert results of fits to plain values for files, and back; every field that is read is checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from anchortm._util.plain_values import (
    check,
    is_count,
    is_flag,
    is_label,
    is_number,
    is_parameter,
    is_plain,
    is_strength,
    is_text,
    list_of,
    plain,
)
from anchortm.bases import Basis, OrdinalBasis
from anchortm.engine.cluster_effects import RandomEffects
from anchortm.engine.decisive import Decisive
from anchortm.engine.environment_weights import Shares
from anchortm.engine.objective.penalised import Penalty
from anchortm.engine.objective.scale_effects import scale_columns
from anchortm.engine.place_variance import PlaceVariance
from anchortm.engine.recalibration.record import Recalibration
from anchortm.engine.result import FitResult, ScaleEffects
from anchortm.engine.rows.factor_hessian import Arrow
from anchortm.engine.specification import Specification, named_columns
from anchortm.engine.two_effects import TwoEffects
from anchortm.exceptions import InputTypeError
from anchortm.inputs.baselines import Corners, Group, known_strata, varying_groups
from anchortm.inputs.splines import Marks, marks_by_name, smooth_terms

__all__ = ["SCHEMA", "corners_of", "record_of", "result_of"]

Test = Callable[[Any], bool]

LARGEST_LOG = 300.0  # largest log scale at the ends of the covariates' ranges
MAX_GROUPS = 1000
MAX_COVARIANCE = 500  # with more parameters the covariance is not saved

# fields of a result in the part "fit" of a file: their names in the file, and the test of their values
FIT: dict[str, tuple[str, Test]] = {
    "xi": ("xi_", is_number),
    "n_rows": ("n_rows_", is_count),
    "n_total": ("n_total_", lambda value: is_number(value) and value > 0),
    "row_kinds": ("row_kinds_", lambda value: isinstance(value, dict) and all(map(is_count, value.values()))),
    "time": ("time_", is_flag),
    "n_anchors": ("n_anchors_", is_count),
    "float_codes": ("float_codes_", list_of(is_text)),
    "dropped_anchors": ("dropped_anchors_", list_of(is_text)),
    "dropped_classes": ("dropped_classes_", lambda value: isinstance(value, list)),
    "loglik": ("loglik_", is_number),
    "loss": ("loss_", is_number),
    "penalty": ("penalty_", is_parameter),
    "n_iter": ("n_iter_", is_count),
    "converged": ("converged_", is_flag),
    "kkt": ("kkt_", is_number),
    "min_eigenvalue": ("min_eigenvalue_", is_number),
    "active": ("active_", list_of(is_flag)),
    "folds": ("folds_", list_of(is_number)),
    "convexity": ("convexity_", lambda value: value in ("global", "local", "none")),
    "lower_minima": ("lower_minima_", list_of(is_number)),
    "warnings": ("warnings_", list_of(is_text)),
    "reason": ("_reason", is_text),
    "binary": ("_binary", list_of(is_flag)),
    "had_offset": ("_had_offset", is_flag),
    "alphabetical": ("_alphabetical", is_flag),
}
# the same for fields that early files do not have
LATER: dict[str, tuple[str, Test]] = {
    "covariate_ranges": (
        "covariate_ranges_",
        lambda value: len(value) == 2 and all(list_of(is_number)(v) for v in value),
    ),
    "l1": ("l1_", is_strength),
    "l2": ("l2_", is_strength),
    "smooth": ("smooth_", is_strength),
    "edf": ("edf_", lambda value: isinstance(value, dict) and all(map(is_parameter, value.values()))),
    "atom": ("atom_", is_number),
    "outcome_range": ("outcome_range_", lambda value: len(value) == 2 and list_of(is_number)(value)),
    "outcome_name": ("outcome_name_", is_text),
    "missing": ("missing_", lambda value: isinstance(value, dict) and all(map(is_count, value.values()))),
    "n_missing": ("n_missing_", is_count),
    "widened": ("widened_", lambda value: is_number(value) and value > 0.0),
    "form": ("form_", lambda value: value in ("", "target", "proxies")),
    "target_shift": ("target_shift_", is_parameter),
}
SCALE: dict[str, tuple[str, Test]] = {
    "names": ("scale_names_", list_of(is_text)),
    "coef": ("scale_coef_", list_of(is_parameter)),
    "xi": ("xi_scale_", lambda value: is_number(value) and value >= 0.0),
    "penalty": ("penalty_scale_", is_strength),
}
TUPLES = ("float_codes", "dropped_anchors", "dropped_classes", "folds", "outcome_range")
SCHEMA: dict[str, Test] = {
    "basis": lambda value: isinstance(value, dict),
    "baseline": list_of(is_parameter),
    "coef": list_of(is_parameter),
    "coef_names": list_of(is_text),
    "feature_names": lambda value: value is None or list_of(is_text)(value),
    "n_features": is_count,
    "fit": lambda value: isinstance(value, dict),
    "history": list_of(lambda row: isinstance(row, dict) and all(map(is_plain, row.values()))),
    "covariance": lambda value: value is None or isinstance(value, dict),
    "corners": lambda value: value is None or isinstance(value, dict),
    "random": lambda value: value is None or isinstance(value, dict),
}


def record_of(result: FitResult) -> dict[str, Any]:
    """Return a result as a dict of numbers, strings and lists."""
    if isinstance(result.basis, OrdinalBasis) and not all(
        isinstance(level, (str, bool, int, float)) for level in result.basis.levels
    ):
        raise InputTypeError("only classes that are text or numbers can be saved: rename the classes")
    fit = {name: getattr(result, field) for field, (name, _) in FIT.items()}
    fit |= {name: value for f, (name, _) in LATER.items() if (value := getattr(result, f)) is not None}
    if result.scale is not None:
        fit |= {name: getattr(result.scale, field) for field, (name, _) in SCALE.items()}
    return {
        "link": result.link.name,
        "basis": plain(result.basis.to_dict()),
        "baseline": plain(result.baseline),
        "coef": plain(result.coef),
        "coef_names": list(result.coef_names),
        "feature_names": None if result.columns is None else list(result.columns),
        "n_features": int(result.n_features_in),
        "fit": plain(fit),
        "history": plain(result.history),
        "covariance": _covariance_record(result),
        "corners": None if result.corners is None else plain(asdict(result.corners)),
        "random": None if result.random is None else plain(result.random.record()),
        "places": plain(places.record()) if (places := result.computed.get("places")) is not None else None,
    } | {field: plain(values) for field, values in (result.own_record() | _later(result)).items()}


def _later(result: FitResult) -> dict[str, Any]:
    """Return what only some results have, and early files do not have."""
    found = {} if result.recalibration is None else {"recalibration": result.recalibration.to_dict()}
    found |= {} if result.decisive is None else {"decisive": result.decisive.record()}
    return found if result.shares is None else found | {"weights": result.shares.record()}


def _covariance_record(result: FitResult) -> Any:
    """Return the matrices for standard errors."""
    if result.parameters.size > MAX_COVARIANCE:
        return None
    information, jacobian = result.information, result.jacobian
    if isinstance(information, Arrow):
        jacobian = information.coordinates.jacobian
        information = information.toarray()
    fixed = None if information is None else result.fixed
    parts = {"information": information, "fixed": fixed, "jacobian": jacobian}
    baseline = result.computed.get("baseline")
    more = {} if baseline is None else {"baseline": baseline}
    return plain(parts | {"sandwich": result.computed.get("sandwich")} | more)


def result_of(
    cls: type[FitResult], record: dict[str, Any], spec: Specification, formula_marks: dict[str, Any] | None
) -> FitResult:
    """Return the checked result from a record.

    Parameters
    ----------
    cls : type
        The kind of result; it reads the fields that are not in ``SCHEMA``.
    record : dict
        The record, after ``lively``.
    spec : Specification
        The specification of the fit.
    formula_marks : dict or None
        The smooth term of each column of the formula, if any.
    """
    for key, test in SCHEMA.items():
        check(key in record, f"the field {key!r} is missing")
        check(test(record[key]), f"the field {key!r} is invalid")
    names, coef = list(record["coef_names"]), np.array(record["coef"], dtype=np.float64)
    check(len(names) == coef.size, f"there are {coef.size} coefficients and {len(names)} names")
    corners = _corners(record["corners"], spec, names)
    theta = np.array(record["baseline"], dtype=np.float64)
    found: dict[str, Any] = {
        "link": spec.link,
        "basis": _basis(record["basis"], record["baseline"], corners),
        "sign": spec.sign,
        "effect": spec.effect,
        "baseline": theta,
        "typical": theta,
        "coef": coef,
        "coef_names": names,
        "corners": corners,
        "history": record["history"],
        "n_features_in": record["n_features"],
    }
    found |= _columns(record, spec)
    found |= _fit_fields(record["fit"], corners, names)
    found["scale"] = _scale(record["fit"], spec, found, names)
    if record["random"] is not None:
        kind = TwoEffects if "terms" in record["random"] else RandomEffects
        found["random"] = kind.from_record(record["random"], names)
    kinds: list[Any] = [type(None), RandomEffects, TwoEffects]  # by the number of random terms
    fits = isinstance(found.get("random"), kinds[len(spec.cluster)])
    check(fits, "the random effects do not match the model")
    forms = [name for name in ("target", "proxies") if getattr(spec, name) is not None]
    check([form for form in (found.get("form"),) if form] == forms, "the penalty does not match the parameters")
    check(("target_shift" in found) == (forms == ["target"]), "target_shift_ does not match the parameters")
    check(bool(forms) or found["penalty"] >= 0.0, "the field 'penalty_' of the fit is invalid")
    penalised = found["l1"], found["l2"]
    check(penalised == (spec.l1, spec.l2), "l1_ and l2_ do not match the parameters")
    Penalty.of(0.0, 0.0, 0.0, spec.penalty_factor, tuple(names), None, None)  # raises an error for unknown names
    found["marks"] = _marks(names, found, formula_marks)
    if record.get("weights") is not None:  # early files do not have it
        found["shares"] = Shares.from_record(record["weights"], spec)
    if record.get("recalibration") is not None:
        found["recalibration"] = Recalibration.from_dict(record["recalibration"])
    if record.get("decisive") is not None:
        found["decisive"] = Decisive.from_record(record["decisive"])
    made = cls.from_own_record(record, spec, found)
    made = _with_covariance(made, record["covariance"])
    if record.get("places") is not None:  # early files do not have it
        made.computed["places"] = PlaceVariance.from_record(record["places"])
    return made


def _columns(record: dict[str, Any], spec: Specification) -> dict[str, Any]:
    """Return the names of the columns of X, checked."""
    names, n = record["feature_names"], record["n_features"]
    if names is not None:
        check(len(names) == n, "the number of feature names does not match the number of features")
        return {"columns": tuple(names)}
    numbers = [name for what in ("anchor_names", "strata") for name in named_columns(getattr(spec, what), what)]
    there = all(is_number(name) and -n <= name < n for name in numbers)  # without names, columns have positions
    check(there or record["formula"] is not None, "anchor_names or strata are not columns of X")
    return {"columns": None}


def _fit_fields(fit: dict[str, Any], corners: Corners | None, names: list[str]) -> dict[str, Any]:
    """Return the fields of the part "fit", checked."""
    found: dict[str, Any] = {"l1": 0.0, "l2": 0.0, "smooth": 0.0, "edf": {}}
    for field, (name, test) in FIT.items():
        check(test(fit[name]), f"the field {name!r} of the fit is invalid")
        found[field] = fit[name]
    for field, (name, test) in LATER.items():
        value = fit.get(name)
        check(value is None or test(value), f"the field {name!r} of the fit is invalid")
        if value is not None:
            found[field] = value
    found |= {field: tuple(found[field]) for field in TUPLES if field in found}
    found["active"] = np.array(found["active"], dtype=bool)
    if "covariate_ranges" in found:
        found["covariate_ranges"] = ranges = np.array(found["covariate_ranges"], dtype=np.float64)
        covariates = names if corners is None else corners.covariates
        check(ranges.shape == (2, len(covariates)), "the ranges do not match the covariates")
    check(len(found["binary"]) == len(names), "the number of binary flags does not match the number of covariates")
    return found


def _scale(fit: dict[str, Any], spec: Specification, found: dict[str, Any], names: list[str]) -> ScaleEffects | None:
    """Return the checked scale effects; None if the model has none."""
    given: dict[str, Any] = {field: fit.get(name) for field, (name, _) in SCALE.items()}
    there = [value is not None for value in given.values()]
    check(all(there) if spec.scale is not None else not any(there), "the scale effects do not match the parameters")
    if spec.scale is None:
        return None
    for field, (name, test) in SCALE.items():
        check(test(given[field]), f"the field {name!r} of the fit is invalid")
    columns = scale_columns(spec.scale, names)
    check(
        given["names"] == [names[j] for j in columns] and len(given["coef"]) == len(columns),
        "the scale effects do not match the columns in scale",
    )
    check(given["xi"] == (found["xi"] if spec.xi_scale is None else spec.xi_scale), "xi_scale_ does not match xi_scale")
    g = np.array(given["coef"], dtype=np.float64)
    size = np.abs(found.get("covariate_ranges", np.ones((1, len(names)))))
    check(size[:, columns].max(axis=0) @ np.abs(g) <= 2.0 * LARGEST_LOG, "the scale overflows")
    return ScaleEffects(given["names"], g, given["xi"], given["penalty"])


def _marks(names: list[str], found: dict[str, Any], formula_marks: dict[str, Any] | None) -> Marks:
    """Return the smooth term of each coefficient, if any; early files show it by the names only."""
    edf, smooth = found["edf"], found["smooth"]
    if formula_marks is not None:
        marks: Marks = tuple(formula_marks[name] for name in names)
    else:
        marks = marks_by_name(names, edf or None) if smooth or edf else (None,) * len(names)
    terms = smooth_terms(marks)
    fine = set(edf) <= set(terms) and (bool(terms) or not smooth)
    check(fine, "the smooth terms do not match the covariates")
    return marks


def _corners(record: dict[str, Any] | None, spec: Specification, names: list[str]) -> Corners | None:
    """Return strata and varying effects, checked."""
    strata = bool(named_columns(spec.strata, "strata")) and spec.likelihood != "partial"
    varies = bool(varying_groups(spec.varying))
    if record is None:
        check(not strata and not varies, "the baselines of strata or varying effects are missing")
        return None
    corners = corners_of(record)
    check(corners.sign == spec.sign, "the baselines do not match the model")
    varying, covariates = corners.varying_names, corners.covariates
    check([name for name in covariates if name not in varying] == names, "the covariates are incomplete")
    check((corners.strata is None) == (not strata), "the strata do not match the model")
    check(bool(varying) == varies, "the varying effects do not match the model")
    return corners


def corners_of(record: dict[str, Any]) -> Corners:
    """Return the corners in a record, checked."""
    check(set(record) == {"groups", "sign", "covariates"}, "the baselines have unknown or missing fields")
    covariates, groups = record["covariates"], record["groups"]
    check(record["sign"] in (-1, 1) and list_of(is_text)(covariates), "the baselines do not match the model")
    check(isinstance(groups, list) and 0 < len(groups) <= MAX_GROUPS, "the number of groups of baselines is invalid")
    made = [_group(group) for group in groups]
    check(all(group.kind != "strata" for group in made[1:]), "strata must be the first group of baselines")
    corners = Corners(tuple(made), float(record["sign"]), tuple(covariates))
    varying = corners.varying_names
    known = len(set(varying)) == len(varying) and set(varying) <= set(covariates)
    check(known, "varying effects name unknown or repeated covariates")
    return corners


def _group(group: dict[str, Any]) -> Group:
    """Return one checked group of baselines."""
    check(group["kind"] in ("strata", "factor", "number"), "a group of baselines has an unknown kind")
    strata, labels = group["kind"] == "strata", group["labels"]
    check(list_of(is_text)(group["names"]) and strata == (not group["names"]), "a group has invalid columns")
    check(list_of(is_label)(labels) and strata == bool(labels), "the names of strata are invalid")
    check(known_strata(labels) == labels, "the strata are not in order")
    check(is_parameter(group["low"]) and is_parameter(group["high"]), "a range does not consist of numbers")
    check(group["low"] < group["high"], "a range is empty")
    own = Group(group["kind"], tuple(group["names"]), tuple(labels), group["low"], group["high"])
    check(own.size == 2 if own.kind == "number" else own.size > 1, "a group has the wrong number of baselines")
    return own


def _basis(record: dict[str, Any], baseline: list[float], corners: Corners | None) -> Basis:
    """Return the basis, checked against the parameters of the baseline."""
    order = record.get("order", 0)
    check(is_count(order) and order <= len(baseline), "the order of the basis does not match the baseline")
    basis = Basis.from_dict(record)
    blocks = 1 if corners is None else corners.n_blocks
    wanted = blocks * basis.n_parameters
    check(wanted == len(baseline), f"the baselines have {wanted} parameters, not {len(baseline)}")
    each = np.array(baseline, dtype=np.float64).reshape(blocks, -1)
    line = basis.kind in ("linear", "log-linear")  # intercept and slope
    steps = each[:, 1:] if line else np.diff(each)
    if corners is None and line:
        rising = steps[0, 0] > 0.0
    else:  # rounding errors may make steps slightly negative
        size = np.abs(each).sum(axis=0)
        rising = ((steps[0] if corners is None else corners.least(steps)) >= -1e-12 * (size[1:] + size[:-1])).all()
    check(bool(rising), "the baseline decreases")
    return basis


def _with_covariance(result: FitResult, record: dict[str, Any] | None) -> FitResult:
    """Return the result with the checked matrices for standard errors."""
    if record is None:
        return result
    k, d, b = result.active.size, result.parameters.size, result.baseline.size
    found: dict[str, Any] = {}
    shapes = {"information": (k, k), "fixed": (k,), "jacobian": (d, k), "sandwich": (d, d), "baseline": (b, b)}
    for key, shape in shapes.items():
        if key == "baseline" and key not in record:  # early files do not have it
            continue
        if record[key] is None and (key == "sandwich" or result.l1 or result.ridged or result.kinked):
            continue
        part = np.array(record[key], dtype=np.float64)
        check(part.shape == shape, f"the field {key!r} has the shape {part.shape}, not {shape}")
        found[key] = part.astype(bool) if key == "fixed" else part
    computed: dict[str, Any] = {key: found.pop(key) for key in ("sandwich", "baseline") if key in found}
    return result.with_covariance(found, computed)
