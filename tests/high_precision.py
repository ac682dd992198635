"""The links' quantities from their definitions, in 80-digit arithmetic, and the measured errors.

Nothing here shares a formula with ``anchortm.links``: densities and distribution functions are
written as in a textbook, p = f(u) / (F(u) - F(v)) as a plain quotient, and derivatives by the
chain rule from them. Used by the contract test and by ``scripts/accuracy_report.py``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np

from anchortm.kernels import rows
from anchortm.links import LINKS, Link, OneEnd

DIGITS = 80
SMALLEST = 1e-290  # below this a double has fewer digits, and no relative error can be asked for

ENDS = (0.0, 1e-9, 1e-3, 0.03, 0.3, 0.7, 1.0, 1.7, 2.5, 4.0, 6.0, 8.0, 9.9, 10.1, 15.0, 20.0, 30.0, 36.0, 40.0)
WIDTHS = (1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 0.05, 0.2, 0.5, 0.99, 1.01, 1.4, 2.0, 3.0, 5.9, 8.0, 15.0, 30.0, 60.0)

mpf = mp.mpf


class Distribution(NamedTuple):
    """F, 1 - F, f and the first three derivatives of log f."""

    cdf: Callable[[mpf], mpf]
    sf: Callable[[mpf], mpf]
    density: Callable[[mpf], mpf]
    psi: Callable[[mpf], mpf]
    dpsi: Callable[[mpf], mpf]
    d2psi: Callable[[mpf], mpf]


def _logistic_cdf(z: mpf) -> mpf:
    return 1 / (1 + mp.exp(-z))


DISTRIBUTIONS = {
    "probit": Distribution(
        lambda z: mp.erfc(-z / mp.sqrt(2)) / 2,
        lambda z: mp.erfc(z / mp.sqrt(2)) / 2,
        lambda z: mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi),
        lambda z: -z,
        lambda z: mpf(-1),
        lambda z: mpf(0),
    ),
    "logit": Distribution(
        _logistic_cdf,
        lambda z: _logistic_cdf(-z),
        lambda z: _logistic_cdf(z) * _logistic_cdf(-z),
        lambda z: _logistic_cdf(-z) - _logistic_cdf(z),
        lambda z: -2 * _logistic_cdf(z) * _logistic_cdf(-z),
        lambda z: -2 * _logistic_cdf(z) * _logistic_cdf(-z) * (_logistic_cdf(-z) - _logistic_cdf(z)),
    ),
    "cloglog": Distribution(
        lambda z: -mp.expm1(-mp.exp(z)),
        lambda z: mp.exp(-mp.exp(z)),
        lambda z: mp.exp(z - mp.exp(z)),
        lambda z: 1 - mp.exp(z),
        lambda z: -mp.exp(z),
        lambda z: -mp.exp(z),
    ),
    "loglog": Distribution(
        lambda z: mp.exp(-mp.exp(-z)),
        lambda z: -mp.expm1(-mp.exp(-z)),
        lambda z: mp.exp(-z - mp.exp(-z)),
        lambda z: mp.exp(-z) - 1,
        lambda z: -mp.exp(-z),
        lambda z: mp.exp(-z),
    ),
}


def exact(F: Distribution, z: mpf) -> dict[str, mpf]:
    return {"l": mp.log(F.density(z)), "r": -F.psi(z), "dr": -F.dpsi(z), "d2r": -F.d2psi(z)}


def left(F: Distribution, u: mpf) -> dict[str, mpf]:
    p, psi = F.density(u) / F.cdf(u), F.psi(u)
    log_cdf = mp.log(F.cdf(u)) if F.cdf(u) < 0.5 else mp.log1p(-F.sf(u))
    return {"l": log_cdf, "r": -p, "dr": -p * (psi - p), "d2r": -p * ((psi - p) * (psi - 2 * p) + F.dpsi(u))}


def right(F: Distribution, v: mpf) -> dict[str, mpf]:
    q, psi = F.density(v) / F.sf(v), F.psi(v)
    log_sf = mp.log(F.sf(v)) if F.sf(v) < 0.5 else mp.log1p(-F.cdf(v))
    return {"l": log_sf, "r": q, "dr": q * (psi + q), "d2r": q * ((psi + q) * (psi + 2 * q) + F.dpsi(v))}


def interval(F: Distribution, v: mpf, u: mpf) -> dict[str, mpf]:
    delta = F.cdf(u) - F.cdf(v) if F.cdf(v) < F.sf(v) else F.sf(v) - F.sf(u)
    p, q = F.density(u) / delta, F.density(v) / delta
    r, psi_u, psi_v = q - p, F.psi(u), F.psi(v)
    return {
        "l": mp.log(delta) if delta < 0.5 else mp.log1p(-F.cdf(v) - F.sf(u)),
        "p": p,
        "q": q,
        "r": r,
        "r_u": -p * (psi_u + r),
        "r_v": q * (psi_v + r),
        "r_uu": -p * ((psi_u + r) * (psi_u - 2 * p) + F.dpsi(u)),
        "r_uv": -p * q * (psi_u + psi_v + 2 * r),
        "r_vv": q * ((psi_v + r) * (psi_v + 2 * q) + F.dpsi(v)),
        "l_uu": -p * (p - psi_u),
        "l_uv": p * q,
        "l_vv": -q * (q + psi_v),
    }


def grid(kind: str) -> list[tuple[float, ...]]:
    """Return the ends (z,), (u,), (v,) or (v, u): |h| up to 40, widths 1e-8 to 60, both tails."""
    ends = sorted({s * e for s in (-1.0, 1.0) for e in ENDS})
    if kind != "interval":
        return [(e,) for e in ends]
    pairs = {(e, e + w) for e, w in itertools.product(ends, WIDTHS)}
    pairs |= {(e - w, e) for e, w in itertools.product(ends, WIDTHS)}
    pairs |= {(-e * 0.999, e) for e in ENDS[2:]}  # nearly symmetric around zero: r is almost zero
    return sorted(pairs)


@cache
def reference(name: str, kind: str) -> dict[str, list[mpf]]:
    """Return every quantity of this kind on the grid, in high precision."""
    with mp.workdps(DIGITS):
        formula = {"exact": exact, "left": left, "right": right, "interval": interval}[kind]
        rows = [formula(DISTRIBUTIONS[name], *map(mpf, ends)) for ends in grid(kind)]
        return {key: [row[key] for row in rows] for key in rows[0]}


def relative_errors(computed: np.ndarray, truth: list[mpf], scale: list[mpf]) -> np.ndarray:
    """Return |computed - truth| / scale, zero where truth is too small for a double."""
    with mp.workdps(DIGITS):
        return np.array(
            [
                0.0 if abs(t) < SMALLEST and abs(c) <= SMALLEST else float(abs(mpf(c) - t) / s)
                for c, t, s in zip(map(float, computed), truth, scale, strict=True)
            ]
        )


def measured_errors(link: Link, kind: str, terms: Any = None) -> Iterator[tuple[str, float]]:
    """Yield (quantity, largest relative error on the grid), of the link itself or of ``terms`` on the grid.

    r and its second derivatives have roots; they are measured relative to
    max(|value|, r_u + r_v). All others are relative to their own value.
    """
    truth = reference(link.name, kind)
    terms = getattr(link, kind)(*np.array(grid(kind)).T) if terms is None else terms
    slope = [a + b for a, b in zip(truth["r_u"], truth["r_v"], strict=True)] if kind == "interval" else truth["dr"]
    for quantity, values in truth.items():
        rooted = quantity in ("r", "d2r", "r_uu", "r_uv", "r_vv")
        scale = [max(abs(t), s if rooted else 0, mpf(SMALLEST)) for t, s in zip(values, slope, strict=True)]
        yield quantity, float(relative_errors(getattr(terms, quantity), values, scale).max())


def compiled_terms(name: str, kind: str) -> OneEnd:
    """Return the values that the compiled kernel has for rows on the grid, from calls for one row each."""
    found = []
    for (h,) in grid(kind):
        curvatures = []
        for bend in (None, np.ones(1)):
            g, H = np.zeros(1), np.zeros((1, 1))
            at = np.ones((1, 1)), None, None, None, None, 1, np.array([h])
            result = rows.one_end(rows.LAWS[name, kind], *at, bend, (g, H))
            assert result is not None
            curvatures.append(H[0, 0])
        loglik, r, dr = result
        assert (g[0], curvatures[0]) == (r[0], dr[0])
        found.append((loglik, r[0], dr[0], curvatures[1] - curvatures[0]))
    return OneEnd(*np.array(found).T)


def all_measured_errors() -> Iterator[tuple[str, str, str, float]]:
    """Yield (link, kind, quantity, largest relative error) for every link and kind."""
    for link in LINKS.values():
        for kind in ("exact", "left", "right", "interval"):
            for quantity, error in measured_errors(link, kind):
                yield link.name, kind, quantity, error
