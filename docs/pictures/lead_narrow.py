"""The lead for narrow screens: its panels below each other."""

from __future__ import annotations

import runpy
from pathlib import Path

from matplotlib.figure import Figure


def draw() -> Figure:
    figure: Figure = runpy.run_path(str(Path(__file__).with_name("lead.py")))["draw"](narrow=True)
    return figure
