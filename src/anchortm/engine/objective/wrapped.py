"""Objectives around another objective: whatever a wrapper does not define is the inner one's.

The mechanism is one descriptor for each member of ``Objective``. A wrapper overrides only what it changes, and new
members of the contract are forwarded too.
"""

from __future__ import annotations

from abc import abstractmethod, update_abstractmethods
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.protocol import Loss, Objective

__all__ = ["Wrapped"]

Array = NDArray[np.float64]


class Forwarded:
    """A member that is the inner objective's, unless the instance has one of its own."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else getattr(instance.inner, self.name)


def forwards(wrapper: type[Wrapped]) -> type[Wrapped]:
    """Let a class forward all public members of the contract that it does not define."""
    members = {name for part in (Loss, Objective) for name in (*vars(part), *part.__annotations__)}
    for name in sorted(members):
        if not name.startswith("_") and name not in vars(wrapper):
            setattr(wrapper, name, Forwarded(name))
    return update_abstractmethods(wrapper)


@forwards
class Wrapped(Objective):
    """An objective around another one in the same parameters; subclasses say what they add to its loss."""

    inner: Objective

    def __init__(self, inner: Objective) -> None:
        self.inner = inner

    @abstractmethod
    def around(self, inner: Objective) -> Self:
        """Return the same wrapper around another loss in the same parameters."""

    @property
    def unpenalised(self) -> Objective:
        """Return the loss without penalties on its coefficients."""
        return self.inner.unpenalised

    @property
    def closed_form(self) -> tuple[Array, Array] | None:
        """Return None: what a wrapper adds leaves no closed form."""
        return None

    @property
    def scored(self) -> Objective:
        """Return the wrapped loss whose anchor penalty takes score residuals."""
        return self._rewrapped(self.inner.scored)

    @property
    def simpler(self) -> Objective | None:
        """Return the wrapped loss from whose minimum this one starts, if the inner one needs such a loss."""
        simpler = self.inner.simpler
        return None if simpler is None else self.around(simpler)

    def ray(self, xi: float) -> tuple[Objective, float]:
        """Return the wrapped loss to minimise for this xi, and the number along its path."""
        along, tau = self.inner.ray(xi)
        return self._rewrapped(along), tau

    def with_nodes(self, n_nodes: int) -> Objective:
        """Return the wrapped loss with another number of quadrature nodes."""
        return self._rewrapped(self.inner.with_nodes(n_nodes))

    def sample(self, size: int) -> Objective:
        """Return the wrapped loss of about ``size`` rows."""
        return self._rewrapped(self.inner.sample(size))

    def _rewrapped(self, inner: Objective) -> Objective:
        return self if inner is self.inner else self.around(inner)
