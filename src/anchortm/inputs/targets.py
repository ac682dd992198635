"""What users know about numeric anchors: their distribution at a target, or which of them are noisy proxies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anchortm._typing import Array, Columns, Numbers, Table
from anchortm._util.checks import real_numbers
from anchortm._util.frames import is_frame, native
from anchortm.exceptions import InputError, InputTypeError
from anchortm.inputs.anchors import AnchorColumns, units_of

__all__ = ["Proxies", "TargetShift", "check_known", "numeric_anchors"]

Names = tuple[str, ...] | None
Means: TypeAlias = Numbers | Mapping[str, float]
Covariance: TypeAlias = ArrayLike | Table | Mapping[str, Mapping[str, float]]

NOT_NEGATIVE = 1e-10  # eigenvalues of a correlation matrix down to minus this count as zero
ONE_HOT = (
    "{what} is for numeric anchors, and {names} {is_are}: a new place has no column of its own among the places of the "
    "training rows; give numeric columns that describe places, as floats, or use xi"
)


class TargetShift:
    """The mean and the covariance of numeric anchors at a target, for the argument ``target`` of a model.

    Both refer to the anchors as they are passed to ``fit``. If the mean or the covariance is not given, that of the
    training rows is used.

    Parameters
    ----------
    mean : mapping, series, array or number, optional
        Means of the anchors at the target, by name or in the order of the anchor columns.
    covariance : frame, mapping of mappings, array or number, optional
        Covariance matrix of the anchors at the target, around their means there. A matrix of zeros means that the
        anchors will have exactly these means.

    See Also
    --------
    anchortm.Proxies : two noisy measurements of anchors

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_boston_housing2()
    >>> atm.TargetShift({"indus": 18.0, "crim": 9.0})
    TargetShift(mean={'indus': 18.0, 'crim': 9.0})
    >>> target = atm.TargetShift({"indus": 18.0}, {"indus": {"indus": 60.0}})
    >>> model = atm.NormalLinear(target=target).fit(data[["rm", "lstat"]], data.cmedv, anchors=data[["indus"]])
    >>> model.slope_.round(2), round(model.target_shift_, 2)
    (array([ 5.07, -0.65]), -0.04)
    """

    def __init__(self, mean: Means | None = None, covariance: Covariance | None = None) -> None:
        if mean is None and covariance is None:
            raise InputError("TargetShift needs a mean, a covariance or both: what is not given stays as in training")
        self.mean: Array | None = None
        self.covariance: Array | None = None
        names = others = None
        if mean is not None:
            names, self.mean = _vector(mean)
        if covariance is not None:
            others, self.covariance = _matrix(covariance)
        if self.mean is not None and self.covariance is not None:
            if self.covariance.shape[0] != self.mean.size:
                raise InputError(
                    f"mean has {self.mean.size} anchors and covariance {self.covariance.shape[0]}: give the same ones"
                )
            self.covariance = _in_order(self.covariance, others, names)
        self.names: Names = names if names is not None else others
        _check_size(self.mean, self.covariance)

    def __repr__(self) -> str:
        given = {"mean": self.mean, "covariance": self.covariance}
        shown = {key: _labelled(self.names, value.tolist()) for key, value in given.items() if value is not None}
        return f"TargetShift({', '.join(f'{key}={value!r}' for key, value in shown.items())})"

    @property
    def size(self) -> int:
        """Return the number of anchors."""
        known = self.covariance if self.mean is None else self.mean
        assert known is not None  # noqa: S101
        return int(known.shape[0])

    def of(self, columns: Sequence[str]) -> tuple[Array | None, Array | None]:
        """Return mean and covariance in the order of the anchor columns; refuse others than these."""
        if self.size != len(columns) or (self.names is not None and set(self.names) != set(columns)):
            own = f"{self.size} anchors" if self.names is None else ", ".join(self.names)
            raise InputError(
                f"target has {own}, and the anchors are {', '.join(columns)}: give the mean and the covariance of each "
                "anchor column, and of no other"
            )
        if self.names is None:
            return self.mean, self.covariance
        at = [self.names.index(name) for name in columns]
        cov = None if self.covariance is None else self.covariance[np.ix_(at, at)]
        return None if self.mean is None else self.mean[at], cov

    def to_dict(self) -> dict[str, Any]:
        """Return names, mean and covariance as lists, for a file."""
        lists = {"mean": self.mean, "covariance": self.covariance}
        names = None if self.names is None else list(self.names)
        return {"names": names} | {key: None if value is None else value.tolist() for key, value in lists.items()}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Self:
        """Return the target from a record of ``to_dict``, checked as that of a user."""
        names, mean, cov = (record.get(key) for key in ("names", "mean", "covariance"))
        return cls(_labelled(names, mean), _labelled(names, cov))


class Proxies:
    """Two noisy measurements of the same numeric anchors, for the argument ``proxies`` of a model.

    If a column W measures an anchor with an error, anchoring on W protects against smaller shifts than anchoring on
    the anchor itself. A second measurement Z, whose errors are independent of those of W, corrects for that.

    Parameters
    ----------
    W, Z : name, position or list of them
        The anchor columns that are the first and the second measurement, the same number of each. Together they are
        all anchor columns.

    See Also
    --------
    anchortm.TargetShift : anchors whose distribution at the target is known

    Examples
    --------
    >>> import anchortm as atm
    >>> import numpy as np
    >>> data = atm.datasets.load_boston_housing2()
    >>> errors = 5.0 * np.random.default_rng(0).normal(size=(2, len(data)))
    >>> measured = data.assign(first=data.indus + errors[0], second=data.indus + errors[1])
    >>> model = atm.NormalLinear(xi=2.0, proxies=atm.Proxies("first", "second"))
    >>> model.fit("cmedv ~ rm + lstat | first + second", measured).slope_.round(2)
    array([ 5.1 , -0.71])
    """

    def __init__(self, W: Columns, Z: Columns) -> None:
        self.W, self.Z = _listed(W, "W"), _listed(Z, "Z")
        if len(self.W) != len(self.Z) or not self.W:
            raise InputError(
                f"W has {len(self.W)} columns and Z {len(self.Z)}: give as many of each, at least one, the first and "
                "the second measurement of the same anchors"
            )

    def __repr__(self) -> str:
        return f"Proxies(W={list(self.W)!r}, Z={list(self.Z)!r})"

    def places(self, columns: Sequence[str]) -> tuple[list[int], list[int]]:
        """Return the positions of W and Z among the anchor columns; refuse columns that are neither, or both."""
        found = []
        for name in (*self.W, *self.Z):
            if isinstance(name, str) and name in columns:
                found.append(list(columns).index(name))
            elif isinstance(name, int) and 0 <= name < len(columns):
                found.append(name)
        if sorted(found) != list(range(len(columns))) or len(found) != 2 * len(self.W):
            raise InputError(
                f"proxies are {self!r}, and the anchors are {', '.join(columns)}: name each anchor column once, as one "
                "of W or of Z"
            )
        return found[: len(self.W)], found[len(self.W) :]

    def to_dict(self) -> dict[str, Any]:
        """Return both as lists, for a file."""
        return {"W": list(self.W), "Z": list(self.Z)}


def _labelled(names: Sequence[str] | None, values: Any) -> Any:
    """Return means or covariances by the names of the anchors, as they are without names."""
    if names is None or values is None:
        return values
    rows = [_labelled(names, row) if isinstance(row, list) else row for row in values]
    return dict(zip(names, rows, strict=True))


def check_known(target: Any, proxies: Any, xi: float, anchor_intercept: bool) -> None:
    """Raise an error if the target or the proxies do not fit the other arguments."""
    if target is not None and not isinstance(target, TargetShift):
        raise InputTypeError(f"target must be a TargetShift(mean, covariance), not {target!r}")
    if proxies is not None and not isinstance(proxies, Proxies):
        raise InputTypeError(f"proxies must be Proxies(W, Z), not {proxies!r}")
    given = "target" if target is not None else "proxies" if proxies is not None else ""
    if given and not anchor_intercept:
        raise InputError(f"{given} takes anchors around their means: leave anchor_intercept at True")
    if target is not None and xi != 0.0:
        raise InputError(
            f"xi = {xi:g} with a target: the mean and the covariance at the target say how strongly to anchor, and "
            "replace xi; leave xi at 0, or leave target out"
        )


def numeric_anchors(anchors: AnchorColumns | None, what: str) -> AnchorColumns:
    """Return the anchors if there are any and all are numeric; refuse others."""
    if anchors is None:
        raise InputError(
            f"{what} needs anchors: pass fit(..., anchors=...), or name them after '|' in a formula (y ~ x | place)"
        )
    if anchors.factors:
        names = ", ".join(anchors.factor_names)
        raise InputError(ONE_HOT.format(what=what, names=names, is_are="is" if len(anchors.factors) == 1 else "are"))
    return anchors


def _listed(columns: Any, what: str) -> tuple[str | int, ...]:
    """Return names or positions of columns."""
    given = [columns] if isinstance(columns, (str, int, np.integer)) else columns
    if not isinstance(given, (list, tuple)) or not all(isinstance(c, (str, int, np.integer)) for c in given):
        raise InputTypeError(f"{what} must be names or positions of anchor columns, not {columns!r}")
    return tuple(c if isinstance(c, str) else int(c) for c in given)


def _vector(mean: Any) -> tuple[Names, Array]:
    """Return names and values of the means."""
    mean = native(mean)
    if isinstance(mean, Mapping):
        return _names(mean, "mean"), _finite(list(mean.values()), "mean", 1)
    named = getattr(mean, "index", None) if hasattr(mean, "to_numpy") else None  # of a pandas series
    names = _names(list(named), "mean") if named is not None and all(isinstance(n, str) for n in named) else None
    return names, _finite(mean, "mean", 1)


def _matrix(covariance: Any) -> tuple[Names, Array]:
    """Return names and values of a covariance matrix."""
    covariance, names = native(covariance), None
    if isinstance(covariance, Mapping):
        names = _names(covariance, "covariance")
        rows = list(covariance.values())
        if not all(isinstance(row, Mapping) and set(row) == set(names) for row in rows):
            raise InputError(
                "covariance as a mapping must have a mapping for each anchor, with a number for each anchor, such as "
                "{'a': {'a': 2.0, 'b': 0.5}, 'b': {'a': 0.5, 'b': 1.0}}"
            )
        covariance = [[row[name] for name in names] for row in rows]
    elif is_frame(covariance):
        names = _names(list(covariance.columns), "covariance")
        index = getattr(covariance, "index", None)
        if index is not None and all(isinstance(n, str) for n in index):
            if set(index) != set(names):
                raise InputError("the rows and the columns of covariance have different names: give the same anchors")
            covariance = covariance.loc[list(names)]
        covariance = covariance.to_numpy()
    return names, _positive(_finite(covariance, "covariance", 2))


def _names(given: Any, what: str) -> tuple[str, ...]:
    names = tuple(str(name) for name in given)
    if len(set(names)) < len(names):
        raise InputError(f"{what} names an anchor twice: {', '.join(names)}")
    return names


def _finite(values: Any, what: str, dimensions: int) -> Array:
    """Return finite numbers as a vector or a square matrix."""
    found = real_numbers(values, what)
    found = found.reshape((1,) * dimensions) if found.ndim == 0 else found
    if found.ndim != dimensions or len(set(found.shape)) != 1 or not found.size:
        shape = "one number for each anchor" if dimensions == 1 else "a row and a column for each anchor"
        raise InputError(f"{what} must have {shape}, not the shape {found.shape}")
    if not np.isfinite(found).all():
        raise InputError(f"{what} has values that are not finite: {found.tolist()}")
    return found


def _positive(matrix: Array) -> Array:
    """Return a symmetric matrix; refuse one that is not a covariance."""
    size = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    unit = matrix / np.outer(np.where(size > 0.0, size, 1.0), np.where(size > 0.0, size, 1.0))
    symmetric = bool((np.abs(unit - unit.T) <= 1e-8).all())
    lowest = float(np.linalg.eigvalsh(0.5 * (unit + unit.T))[0])
    impossible = bool((np.diag(matrix) < 0.0).any()) or bool(matrix[size == 0.0].any())
    if not symmetric or impossible or lowest < -NOT_NEGATIVE * matrix.shape[0]:
        why = "it is not symmetric" if not symmetric else f"an eigenvalue of its correlations is {lowest:.3g}"
        why = "a variance is negative, or one of 0 has covariances" if impossible else why
        raise InputError(f"covariance is not a valid covariance matrix: {why}; correct its variances or correlations")
    return np.asarray(0.5 * (matrix + matrix.T))


def _in_order(matrix: Array, own: Names, wanted: Names) -> Array:
    """Return a covariance in the order of the names of the means."""
    if (own is None) != (wanted is None) and matrix.shape[0] > 1:
        raise InputError("one of mean and covariance has names of anchors, the other has none: name both or neither")
    if own is None or wanted is None:
        return matrix
    if set(own) != set(wanted):
        raise InputError(
            f"mean names the anchors {', '.join(wanted)}, covariance names {', '.join(own)}: give the same ones"
        )
    at: list[int] = [own.index(name) for name in wanted]
    return matrix[np.ix_(at, at)]


def _check_size(mean: Array | None, covariance: Array | None) -> None:
    """Refuse numbers whose squares leave the range of doubles."""
    sizes: list[NDArray[np.float64]] = [] if mean is None else [np.abs(mean)]
    sizes += [] if covariance is None else [np.sqrt(np.diag(covariance))]
    if any((units_of(size) != 1.0).any() for size in sizes):
        raise InputError("mean or covariance is beyond 1e100 or below 1e-100: rescale the anchors, and both with them")
