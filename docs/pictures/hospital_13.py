"""Hospital 13: gains over maximum likelihood in many samples, by shift and strategy."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from anchortm.plotting.style import STRATEGIES
from anchortm.reproduce.hospital_13_study import FEW, LABELS

TABLE = Path(__file__).resolve().parents[1] / "evidence" / "hospital_13.csv"
TITLES = {"laboratory": "laboratory reads higher", "care": "worse care", "nothing": "like the twelve"}
TITLES["frailty"] = "frailer patients"
SHOWN = {"widened": "widened", "anchored": "anchored", FEW[0]: "recalibrated", "truth": "truth"}
TOP = 3.2  # of the axis
MARKS = dict(zip(SHOWN, "sovD", strict=True))


def source() -> str:
    return TABLE.read_text(encoding="utf-8")


def draw() -> Figure:
    table = pd.read_csv(TABLE)
    figure, ax = plt.subplots(figsize=(8.6, 4.4), layout="constrained")
    rng = np.random.default_rng(0)
    for k, shift in enumerate(TITLES):
        own = table[table["shift"] == shift]
        for j, (name, strategy) in enumerate(SHOWN.items()):
            at, values = k + 0.2 * (j - 1.5), own[f"gain {name}"]
            colour, _ = STRATEGIES[strategy]
            spread = at + rng.uniform(-0.06, 0.06, len(values))
            ax.scatter(spread, values, s=9, color=colour, alpha=0.35, linewidths=0)
            low, middle, high = values.quantile([0.25, 0.5, 0.75])
            ax.plot([at, at], [low, high], color=colour, lw=3.5, solid_capstyle="butt")
            also = (
                f" with {LABELS} outcomes" if strategy == "recalibrated" else " (knows hospital 13)" * (name == "truth")
            )
            ax.plot(at, middle, MARKS[name], color=colour, ms=8, mec="white", label=None if k else strategy + also)
    ax.axhline(0.0, color="black", lw=0.8)
    ax.set_xticks(range(len(TITLES)), TITLES.values())
    ax.set(ylabel="gain over maximum likelihood,\nlog-likelihood per patient of hospital 13")
    beyond = int((table[[f"gain {name}" for name in SHOWN]] > TOP).sum().sum())
    ax.set_ylim(-1.0, TOP)
    ax.set_xlabel(
        f"how hospital 13 differs ({table.seed.nunique()} samples; bars: middle half; {beyond} dots lie above)"
    )
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, loc="upper right")
    return figure
