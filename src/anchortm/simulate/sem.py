"""Structural equation transformation models: simulate data, and what interventions do to them.

    A := exogenous,    H := B_HA A + noise,    X := B_XA A + B_XH H + noise,    Y := h^-1(Z | X, H, A)

Z has the link's distribution, and h(y | x, h, a) = a(y)'theta + sign * (x'b + h'c + a'd). So Y follows a transformation
model given its parents. All variables are sampled exactly, Y by inverting h. An intervention on the anchors gives a new
model: ``do`` sets them, ``push`` gives them another distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anchortm import plotting
from anchortm._typing import Array, Axis, Seed
from anchortm._util.checks import generator
from anchortm.bases import Basis, OrdinalBasis
from anchortm.exceptions import InputError
from anchortm.links import Link, get_link
from anchortm.predict.distribution import PredictedDistribution

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "SEM",
    "Additive",
    "Choice",
    "Constant",
    "Linear",
    "Normal",
    "Rademacher",
    "Sample",
    "Transformation",
]


class Sampler(Protocol):
    """A distribution of rows."""

    @property
    def size(self) -> int:
        """Return the number of columns."""

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Return n rows."""


@dataclass(frozen=True)
class Normal:
    """Independent normal columns with these means and standard deviations.

    Examples
    --------
    >>> import numpy as np
    >>> from anchortm.sem import Normal
    >>> columns = Normal.of(mean=[0.0, 5.0], sd=0.5, size=2)
    >>> columns.draw(1000, np.random.default_rng(0)).std(axis=0).round(1)
    array([0.5, 0.5])
    """

    mean: tuple[float, ...]
    sd: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.sd) or min(self.sd, default=0.0) < 0.0:
            raise InputError(
                f"Normal needs as many means as standard deviations, none negative, not {self.mean} and {self.sd}"
            )

    @classmethod
    def of(cls, mean: ArrayLike = 0.0, sd: ArrayLike = 1.0, size: int = 1) -> Normal:
        """Return ``size`` independent columns; a single number holds for all of them."""
        ends = (np.broadcast_to(np.asarray(v, dtype=np.float64), size) for v in (mean, sd))
        means, deviations = (tuple(v.tolist()) for v in ends)
        return cls(means, deviations)

    @property
    def size(self) -> int:
        return len(self.mean)

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        return np.array(self.mean) + np.array(self.sd) * rng.normal(size=(n, self.size))


@dataclass(frozen=True)
class Choice:
    """One column that takes these values with these probabilities (equal ones by default).

    Examples
    --------
    >>> import numpy as np
    >>> from anchortm.sem import Choice
    >>> Choice((0.0, 1.0, 2.0), (0.5, 0.25, 0.25)).draw(1000, np.random.default_rng(0)).mean().round(1).item()
    0.8
    """

    values: tuple[float, ...]
    probabilities: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        p = self.probabilities
        if p is not None and (len(p) != len(self.values) or min(p) < 0.0 or abs(sum(p) - 1.0) > 1e-9):
            raise InputError(f"Choice needs one probability for each of {len(self.values)} values, with sum 1, not {p}")

    @property
    def size(self) -> int:
        return 1

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        return rng.choice(np.array(self.values), size=(n, 1), p=self.probabilities)


def Rademacher(scale: float = 1.0) -> Choice:  # noqa: N802 - the name of a distribution
    """Return the distribution that is +scale or -scale with equal probability.

    Examples
    --------
    >>> from anchortm.sem import Rademacher
    >>> Rademacher(2.0)
    Choice(values=(-2.0, 2.0), probabilities=None)
    """
    return Choice((-float(scale), float(scale)))


@dataclass(frozen=True)
class Constant:
    """Columns that are fixed at these values.

    Examples
    --------
    >>> import numpy as np
    >>> from anchortm.sem import Constant
    >>> Constant((3.0, 1.0)).draw(2, np.random.default_rng(0))
    array([[3., 1.],
           [3., 1.]])
    """

    values: tuple[float, ...]

    @property
    def size(self) -> int:
        return len(self.values)

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        return np.tile(np.array(self.values, dtype=np.float64), (n, 1))


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear equation: noise, plus matrices times the parents (one column per parent).

    Examples
    --------
    >>> import numpy as np
    >>> from anchortm.sem import Constant, Linear
    >>> equation = Linear(Constant((0.0,)), anchors=[[0.3]], hidden=[[0.6]])  # x = 0.3 a + 0.6 h
    >>> equation.draw(1, np.random.default_rng(0), A=np.array([[1.0]]), H=np.array([[2.0]]))
    array([[1.5]])
    """

    noise: Sampler
    anchors: ArrayLike | None = None
    hidden: ArrayLike | None = None

    def draw(self, n: int, rng: np.random.Generator, A: Array, H: Array | None = None) -> Array:
        """Return n rows given the parents."""
        values = self.noise.draw(n, rng)
        for matrix, parent in ((self.anchors, A), (self.hidden, H)):
            if matrix is not None and parent is not None:
                values = values + parent @ np.asarray(matrix, dtype=np.float64).T
        return values


@dataclass(frozen=True, eq=False)
class Transformation:
    """Y given its parents from a transformation model, by inversion: h(y | ...) = a(y)'theta + sign * shift.

    Parameters
    ----------
    link : str or Link
        Distribution of Z.
    basis : Basis
        a(y).
    theta : array
        Parameters of the baseline.
    covariates, hidden : array
        Effects of X and H.
    anchors : array, optional
        Effects of A; none by default.
    sign : float
        -1 or 1, the sign of the shift.

    Examples
    --------
    >>> import numpy as np
    >>> from anchortm.bases import LinearBasis
    >>> from anchortm.sem import Transformation
    >>> outcome = Transformation("probit", LinearBasis(), [0.0, 2.0], covariates=[1.0], hidden=[0.5])
    >>> outcome.distribution(np.zeros((1, 1)), np.zeros((1, 1)), np.array([[3.0]])).median()  # y = (x + h / 2 + z) / 2
    array([1.5])
    """

    link: Link | str
    basis: Basis
    theta: ArrayLike
    covariates: ArrayLike
    hidden: ArrayLike
    anchors: ArrayLike | None = None
    sign: float = -1.0

    def distribution(self, A: Array, H: Array, X: Array) -> PredictedDistribution:
        """Return the distribution of Y given its parents, one per row."""
        shift = X @ np.asarray(self.covariates, dtype=np.float64) + H @ np.asarray(self.hidden, dtype=np.float64)
        if self.anchors is not None:
            shift = shift + A @ np.asarray(self.anchors, dtype=np.float64)
        return PredictedDistribution(
            get_link(self.link), self.basis, np.asarray(self.theta, dtype=np.float64), shift, gain=self.sign
        )

    def draw(self, rng: np.random.Generator, A: Array, H: Array, X: Array) -> NDArray[Any]:
        """Return one outcome for each row."""
        given = self.distribution(A, H, X)
        return np.asarray(given.ppf(rng.random((len(A), 1)))[:, 0])

    def parents(self) -> list[str]:
        """Return the parents of the outcome among A, H and X."""
        effects = {"A": self.anchors, "H": self.hidden, "X": self.covariates}
        return [name for name, effect in effects.items() if effect is not None and np.any(effect)]


@dataclass(frozen=True, eq=False)
class Additive:
    """Y = f(A, H, X) + noise, for outcomes outside the class of transformation models.

    Parameters
    ----------
    function : callable
        Takes the matrices A, H and X and returns one value per row.
    noise : sampler
        One column, such as ``Normal.of(sd=0.25)``.
    depends_on : tuple
        Which of A, H and X the function depends on, for the graph.

    Examples
    --------
    >>> import numpy as np
    >>> from anchortm.sem import Additive, Constant
    >>> outcome = Additive(lambda A, H, X: X[:, 0] ** 2 + H[:, 0], Constant((0.0,)))
    >>> outcome.draw(np.random.default_rng(0), np.zeros((1, 1)), np.ones((1, 1)), np.array([[2.0]]))
    array([5.])
    """

    function: Callable[[Array, Array, Array], Array]
    noise: Sampler
    depends_on: tuple[str, ...] = ("H", "X")

    def draw(self, rng: np.random.Generator, A: Array, H: Array, X: Array) -> NDArray[Any]:
        """Return one outcome for each row."""
        return np.asarray(self.function(A, H, X) + self.noise.draw(len(A), rng)[:, 0])

    def parents(self) -> list[str]:
        """Return the parents of the outcome among A, H and X."""
        return list(self.depends_on)


class Sample(NamedTuple):
    """Rows drawn from a structural model; in practice H is not observed.

    Examples
    --------
    >>> from anchortm.scenarios import iv1
    >>> sample = iv1(n_train=5, n_test=5).draw(random_state=1).train
    >>> sample.A.ravel(), sample.X.shape, sample.Y.shape
    (array([-1.,  1.,  1.,  1., -1.]), (5, 1), (5,))
    """

    A: Array
    H: Array
    X: Array
    Y: NDArray[Any]


@dataclass(frozen=True, eq=False)
class SEM:
    """A structural equation model with anchors A, hidden variables H, covariates X and an outcome Y.

    Examples
    --------
    >>> import numpy as np
    >>> from anchortm.bases import LinearBasis
    >>> from anchortm.sem import SEM, Linear, Normal, Rademacher, Transformation
    >>> model = SEM(
    ...     anchors=Rademacher(),
    ...     hidden=Linear(Normal.of(sd=0.75)),
    ...     covariates=Linear(Normal.of(sd=0.75), anchors=[[0.3]], hidden=[[0.6]]),
    ...     response=Transformation("probit", LinearBasis(), [0.0, 1.0], [0.5], [1.0]),
    ... )
    >>> model.sample(5, random_state=1).X.shape, model.do(A=3.0).sample(2).A.ravel().tolist()
    ((5, 1), [3.0, 3.0])
    >>> model.edges()
    [('A', 'X'), ('H', 'X'), ('H', 'Y'), ('X', 'Y')]
    """

    anchors: Sampler
    hidden: Linear
    covariates: Linear
    response: Transformation | Additive

    def __post_init__(self) -> None:
        if isinstance(self.response, Transformation):
            self._check_response(self.response)
        if self.hidden.hidden is not None:
            raise InputError("hidden variables can depend on anchors and noise only: set hidden=None in their equation")
        sizes = {"anchors": self.anchors.size, "hidden": self.hidden.noise.size}
        for name, equation in (("hidden", self.hidden), ("covariates", self.covariates)):
            for parent in ("anchors", "hidden"):
                matrix = getattr(equation, parent)
                wanted = (equation.noise.size, sizes[parent])
                if matrix is not None and np.shape(matrix) != wanted:
                    shape = np.shape(matrix)
                    raise InputError(f"the matrix of {parent} in {name} has shape {shape}, not {wanted}")

    def _check_response(self, response: Transformation) -> None:
        get_link(response.link)
        theta = np.asarray(response.theta, dtype=np.float64)
        basis = response.basis
        if theta.shape != (basis.n_parameters,):
            raise InputError(f"theta has shape {theta.shape}, but the basis has {basis.n_parameters} parameters")
        slope = basis.kind not in ("linear", "log-linear") or theta[-1] > 0.0
        if not slope or not basis.increments.satisfied(theta, 1e-12):
            raise InputError("theta does not give an increasing transformation: check the order of its entries")
        sizes = {
            "covariates": self.covariates.noise.size,
            "hidden": self.hidden.noise.size,
            "anchors": self.anchors.size,
        }
        for name, size in sizes.items():
            effects = getattr(response, name)
            if effects is not None and np.shape(effects) != (size,):
                raise InputError(f"the effects of {name} have shape {np.shape(effects)}, not {(size,)}")

    def sample(self, n: int, random_state: Seed = None) -> Sample:
        """Draw n independent rows; ``random_state`` is a seed or a ``numpy.random.Generator``."""
        rng = generator(random_state)
        A = self.anchors.draw(n, rng)
        H = self.hidden.draw(n, rng, A)
        X = self.covariates.draw(n, rng, A, H)
        return Sample(A, H, X, self.response.draw(rng, A, H, X))

    def do(self, A: ArrayLike) -> SEM:
        """Return the model in which the anchors are set to these values."""
        values = tuple(float(a) for a in np.atleast_1d(np.asarray(A, dtype=np.float64)))
        if not np.isfinite(values).all():
            raise InputError(f"do needs finite values for the anchors, not {values}")
        return self.push(Constant(values))

    def push(self, anchors: Sampler) -> SEM:
        """Return the model in which the anchors have another distribution."""
        if anchors.size != self.anchors.size:
            raise InputError(f"the model has {self.anchors.size} anchors, not {anchors.size}")
        return replace(self, anchors=anchors)

    def edges(self) -> list[tuple[str, str]]:
        """Return the arrows of the causal graph."""
        found = [("A", "H")] if self.hidden.anchors is not None and np.any(self.hidden.anchors) else []
        for parent, matrix in (("A", self.covariates.anchors), ("H", self.covariates.hidden)):
            if matrix is not None and np.any(matrix):
                found.append((parent, "X"))
        return found + [(parent, "Y") for parent in self.response.parents()]

    def draw(self, ax: Axis = None) -> Axes:
        """Draw the graph, with hidden variables dashed, and return the axes."""
        return plotting.graph(self.edges(), ax)

    def labels(self) -> NDArray[Any] | None:
        """Return the classes of an ordinal outcome, in order."""
        basis = getattr(self.response, "basis", None)
        return basis.labels() if isinstance(basis, OrdinalBasis) else None
