"""The result of comparing strategies at left-out environments."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from anchortm import plotting
from anchortm._messages import shown
from anchortm._typing import Axis
from anchortm._util.files import read_bytes, write_whole
from anchortm._util.html import report
from anchortm._util.plain_values import lively, plain
from anchortm.exceptions import ModelFileError
from anchortm.newplace.paired import paired
from anchortm.newplace.readable import page
from anchortm.newplace.verdict import Verdict

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Comparison", "like_table"]

FORMAT = "anchortm comparison 1"
MOST_BYTES = 2**30
NEEDED = (  # columns that tables and pictures are made of
    *("design", "direction", "side", "share", "strategy", "environment", "n", "events"),
    *("nll", "skill", "regret", "regret_se", "ranked", "note"),
)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Strategies compared at left-out environments.

    Attributes
    ----------
    rows : list of dict
        The rows of the table that ``frame`` returns.
    model : str
        Name of the model.
    verdict : Verdict
        What the comparison recommends.
    min_rows : int
        Environments with fewer rows, or with fewer than 5 events, are shown but not ranked.

    See Also
    --------
    anchortm.compare_strategies : computes it

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> model, formula = atm.OrdinalRegression(), "rating ~ temp + contact | judge"
    >>> found = atm.compare_strategies(model, formula, data, design="like", strategies=["widened"])
    >>> found.verdict
    At a place like these: keep maximum likelihood
    >>> found.frame()[["strategy", "environment", "n", "skill", "regret"]].head(3).round(2)
      strategy  environment    n  skill  regret
    0     null            1  8.0   0.00    0.17
    1       ml            1  8.0   0.17    0.00
    2  widened            1  8.0   0.24   -0.07
    """

    rows: list[dict[str, Any]]
    model: str
    verdict: Verdict
    min_rows: int = 10

    def frame(self) -> pd.DataFrame:
        """Return one row for each design, fold, strategy and environment.

        Returns
        -------
        DataFrame
            ``nll``; ``skill``, the nll of the model without covariates minus nll (higher is better); ``regret``, nll
            minus that of maximum likelihood (lower is better), and ``spread``, the share of it that a change of the
            width alone explains; ``crps``; ``coverage`` and ``width`` of 90 % intervals; ``mae``, the mean absolute
            error of medians in rows with known outcomes; for times also ``events``, ``concordance`` and ``brier``, at
            the median event time. Only scores that were asked for; NaN where a model does not have one.
            ``xi`` and ``factor`` (of the spread) are the values used. ``ranked`` says whether the environment is large
            enough to be compared by itself, ``note`` why a strategy failed, or which column its fit does without.
        """
        import pandas as pd

        return pd.DataFrame(self.rows)

    def table(self) -> pd.DataFrame:
        """Return one row for each design and strategy.

        Returns
        -------
        DataFrame
            ``mean``, ``q90`` and ``worst`` of minus the skill over environments (the last two over those that are
            ranked, or over all if none is); ``difference``, the mean difference of nll from maximum likelihood, its
            standard error ``se`` over environments, and ``p``, from flipping the signs of differences, simultaneous
            over strategies. The folds of the design "further" overlap, so that it has no standard errors: ``gained``
            says in how many of its folds a strategy is better than maximum likelihood.
        """
        import pandas as pd

        frame = self.frame()
        found = []
        for design, part in frame.groupby("design", sort=False):
            found.append(like_table(part) if design == "like" else _further_table(part))
        return pd.concat(found, ignore_index=True)

    def _title(self) -> str:
        """Return what was compared."""
        frame = self.frame()
        n, names = frame["environment"].nunique(), " and ".join(frame["design"].unique())
        return f"Comparison({self.model}, {frame['strategy'].nunique()} strategies, {n} left-out environments, {names})"

    def _drawable(self) -> bool:
        """Return whether there is anything to draw: a strategy besides maximum likelihood, and one that was fitted."""
        return any(row["strategy"] not in ("null", "ml") and math.isfinite(row["regret"]) for row in self.rows)

    @property
    def remarks(self) -> list[str]:
        """Return what failed, how often and why at first, and which fits do without a column."""
        frame = self.frame()
        n = frame["environment"].nunique()
        failures: dict[tuple[int, str], list[str]] = {}
        for name, own in frame[frame["nll"].isna()].groupby("strategy", sort=False):
            failures.setdefault((own["environment"].nunique(), own["note"].iloc[0]), []).append(str(name))
        noted = frame[frame["nll"].notna() & (frame["note"] != "")]
        alone = noted[noted["design"] == "like"]  # notes on folds are about several environments
        lost = (noted if alone.empty else alone).groupby("note", sort=False)["environment"].unique()
        lines = [
            f"{_listed(names, ' and ')} failed at {'all' if many == n else f'{many} of'} {n} environments: {note}"
            for (many, note), names in failures.items()
        ]
        return lines + [
            f"{_listed(where[:3])}{', ...' if len(where) > 3 else ''}: {note}" for note, where in lost.items()
        ]

    @shown
    def __repr__(self) -> str:
        table = self.table().to_string(index=False, float_format=lambda v: f"{v:.3g}", na_rep="")
        return "\n".join([self._title(), table, *self.remarks, repr(self.verdict)])

    def _repr_html_(self) -> str:
        table = self.table().set_index(["design", "strategy"])
        return report(self._title(), table, *self.remarks, *self.verdict.lines())

    def plot(
        self, ax: Axis = None, *, strategies: Sequence[str] | None = None, design: str | None = None, label: int = 3
    ) -> Any:
        """Draw what each strategy gains or loses at each left-out environment, against maximum likelihood.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        strategies : sequence of str, optional
            Which to draw; by default "widened" and "anchored", as far as they were compared.
        design : {"like", "further"}, optional
            Which left-out environments to draw; by default "like", if both were compared.
        label : int
            How many environments to name: those with the largest gain or loss.

        Returns
        -------
        matplotlib axes
        """
        return plotting.gains(self.frame(), ax, strategies=strategies, design=design, label=label)

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write the comparison to one HTML file, whole or not at all, which any browser opens from the disk.

        It has the verdict with its folds, the tables with what their columns mean, and the picture of ``plot``. It has
        the names of environments, but no rows of your data, and loads nothing from elsewhere.

        Parameters
        ----------
        path : path
            The file, such as "comparison.html".

        Returns
        -------
        Path
        """
        text = page(self)
        return write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the comparison to a JSON file, whole or not at all."""
        record = {"format": FORMAT, "model": self.model, "min_rows": self.min_rows, "rows": self.rows}
        text = json.dumps(plain(record | {"verdict": self.verdict.to_dict()}), indent=1, allow_nan=False)
        return write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the comparison from a file that ``save`` wrote."""
        name = os.fspath(path)
        try:
            record = lively(json.loads(read_bytes(path, MOST_BYTES)))
            if record["format"] != FORMAT:
                raise ModelFileError(f"{name} is not a comparison of strategies: its format is {record['format']!r}")
            rows, verdict = [dict(row) for row in record["rows"]], Verdict.from_dict(record["verdict"])
            absent = [name for row in rows for name in NEEDED if name not in row]
            if absent or not rows:
                raise ValueError(f"its rows have no {absent[0]!r}" if absent else "it has no rows")
            return cls(rows, str(record["model"]), verdict, int(record["min_rows"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, ModelFileError):
                raise
            raise ModelFileError(f"{name} is not a comparison of strategies that can be read: {error}") from None


def _listed(names: Iterable[Any], last: str = ", ") -> str:
    """Return names joined by commas, before the last of them perhaps by a word."""
    *first, end = map(str, names)
    return f"{', '.join(first)}{last}{end}" if first else end


def like_table(part: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each strategy, from the rows of environments that were left out one after another."""
    import pandas as pd

    nll = part.pivot(index="environment", columns="strategy", values="nll")
    names = list(dict.fromkeys(part["strategy"]))
    others = [name for name in names if name not in ("null", "ml")]
    test = paired(nll[others].sub(nll["ml"], axis=0).to_numpy().T) if others else None
    found = []
    for name, own in part.groupby("strategy", sort=False):
        loss, ranked = 0.0 - own["skill"], own["ranked"]  # not -0
        some = loss[ranked] if ranked.any() else loss
        row = {"design": "like", "strategy": name, "mean": loss.mean(), "q90": some.quantile(0.9), "worst": some.max()}
        row |= dict.fromkeys(("difference", "se", "p"), math.nan)
        if test is not None and name in others:
            k = others.index(str(name))
            row |= {"difference": test.difference[k], "se": test.error[k], "p": test.pvalue[k]}
        else:
            row |= {"difference": float((nll[name] - nll["ml"]).mean())}
        found.append(row)
    return pd.DataFrame(found)


def _further_table(part: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    folds = part.groupby(["strategy", "direction", "side", "share"], sort=False)
    means = folds[["nll", "skill"]].mean().reset_index()
    wide = means.pivot(index=["direction", "side", "share"], columns="strategy", values="nll")
    found = []
    for name, own in part.groupby("strategy", sort=False):
        loss, ranked = 0.0 - own["skill"], own["ranked"]  # not -0
        some = loss[ranked] if ranked.any() else loss
        mean = 0.0 - means.loc[means["strategy"] == name, "skill"].mean()
        row = {"design": "further", "strategy": name, "mean": mean, "q90": some.quantile(0.9), "worst": some.max()}
        change = (wide[name] - wide["ml"]).dropna()
        gained = f"{int((change < 0.0).sum())} of {len(change)}" if len(change) and name != "ml" else ""
        row |= {"difference": change.mean(), "gained": gained}
        found.append(row)
    return pd.DataFrame(found)
