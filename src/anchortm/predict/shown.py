"""What notebooks and pictures show of predicted distributions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import ArrayLike, NDArray

from anchortm import plotting
from anchortm._typing import Axis, Rows
from anchortm._util.checks import whole_number
from anchortm._util.html import FEW_ROWS, Table, report
from anchortm.plotting.style import row_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Shown"]


class Shown(ABC):
    """Distributions of rows as pictures and in notebooks."""

    labels: Any = None

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def __getitem__(self, rows: Rows) -> Self:
        """Return the distributions of some rows."""

    def plot(
        self,
        ax: Axis = None,
        of: str | None = None,
        *,
        grid: ArrayLike | None = None,
        labels: Sequence[object] | None = None,
        unit: str | None = None,
        most: int = 8,
    ) -> Axes:
        """Draw the distribution of each row that can be predicted and return the axes.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        of : {"pdf", "cdf", "sf", "hazard", "cumhazard"}, optional
            What to draw. By default P(Y > y) for times, the probability of each class or count, and the density of
            other outcomes.
        grid : array, optional
            Outcomes to draw at; by default the middle 99 % of the distributions.
        labels : sequence, optional
            A label for each row; by default those of the table that was predicted.
        unit : str, optional
            Label of the axis of outcomes; by default the name of the outcome.
        most : int
            Largest number of rows to draw. If there are more, the first ones are drawn, and the title says so.

        Returns
        -------
        matplotlib axes

        Examples
        --------
        >>> import matplotlib.pyplot as plt, anchortm as atm
        >>> data = atm.datasets.load_geyser()
        >>> model = atm.ContinuousProbit().fit(data[["duration"]], data.waiting)
        >>> ax = model.predict_distribution(data[["duration"]]).plot()
        >>> len(ax.lines), ax.get_title(), ax.get_xlabel()
        (8, 'the first 8 of 299 rows', 'waiting')
        >>> plt.close(ax.figure)
        """
        drawn = getattr(self, "good_rows", self)
        given, most = None if labels is None else row_labels(labels, len(drawn)), whole_number(most, "most", 1)
        of = "sf" if of is None and getattr(drawn, "positive", False) else of
        shown = None if given is None else given[:most]
        ax = plotting.distributions(drawn[:most], grid, ax, of=of, labels=shown, unit=unit)
        if len(drawn) > most:
            ax.set_title(f"the first {most} of {len(drawn)} rows", fontsize="medium")
        return ax

    def _repr_html_(self) -> str:
        import pandas as pd

        part = self[:FEW_ROWS]
        rows = pd.RangeIndex(len(part)) if part.labels is None else part.labels
        frame = pd.DataFrame(_columns(part), index=rows if rows.nlevels > 1 else rows.rename(rows.name or "row"))
        return report(repr(self), Table(frame, len(self)))


def _columns(distribution: Any) -> dict[str, NDArray[Any]]:
    """Return what notebooks show of each row: the probabilities of classes, or the median and a 90 % interval."""
    basis = getattr(distribution, "good_rows", distribution).basis
    why = {"reason": distribution.reasons} if hasattr(distribution, "reasons") else {}  # why rows are bad
    if basis.kind == "ordinal":
        return {f"P({k})": p for k, p in zip(basis.levels, distribution.probabilities().T, strict=True)} | why
    lower, upper = distribution.interval(0.9)
    return {"5 %": lower, "median": distribution.median(), "95 %": upper} | why
