"""Write two messy tables, as hospitals send them: patients.csv and new.csv, for the guide to the command line.

They have semicolons, decimal commas, dates with the day first, names with accents, missing values, '<0,5' in a column
of numbers, a level that one hospital has alone, and in the new rows a level that nobody has seen. The patients are made
up, with a fixed seed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

HOSPITALS = ["Aarhus", "Besançon", "Gdańsk", "Köln", "Łódź", "Malmö", "Zürich"]
STAGES = ["I", "II", "III"]
HEAD = ["Patient", "Hôpital", "Aufnahme", "Entlassung", "Alter", "Laktat", "Stadium", "gestorben"]


def rows(n: int, seed: int, level: Any) -> list[list[str]]:
    """Return patients of hospitals that differ in the level of lactate."""
    rng = np.random.default_rng(seed)
    made = []
    for k in range(n):
        site = int(rng.integers(0, len(HOSPITALS)))
        frailty = rng.normal()
        lactate = float(np.exp(0.6 + 0.4 * (level[site] + frailty + 0.5 * rng.normal())))
        age = 65 + 12 * rng.normal()
        stage = int(rng.integers(0, 3))
        risk = 0.9 * frailty + 0.2 * np.log(lactate) + 0.3 * stage + 0.01 * (age - 65)
        time = 60 * rng.weibull(1.3) * np.exp(0.5 - risk)
        came = np.datetime64("2021-01-01") + int(rng.integers(0, 700))
        days = max(1, min(int(np.ceil(time)), 90))
        made.append(
            [
                f"P{seed}{k:03d}",
                HOSPITALS[site],
                came.item().strftime("%d.%m.%Y"),
                (came + days).item().strftime("%d.%m.%Y"),
                f"{age:.0f}" if rng.uniform() > 0.04 else "",
                "<0,5" if lactate < 0.5 else f"{lactate:.2f}".replace(".", ","),
                STAGES[stage],
                "ja" if time <= 90 else "nein",
            ]
        )
    return made


def write(folder: Path) -> None:
    """Write the two files."""
    level = np.linspace(-1.5, 1.5, len(HOSPITALS))
    known = rows(420, 1, level)
    zurich = [k for k, row in enumerate(known) if row[1] == "Zürich"]
    for k in zurich[:4]:
        known[k][6] = "IV"  # a rare level that one site has alone
    for k in (17, 230):
        known[k][5] = "n/a"
    new = rows(12, 2, level + 1.0)
    for row, hospital in zip(new, ["Orléans", "Orléans", "Brno"] * 4, strict=True):
        row[1] = hospital
    new[3][6] = "IVb"  # nobody has seen this level
    new[5][4] = ""
    new[8][5] = "<0,5"
    for name, table in (("patients.csv", known), ("new.csv", new)):
        lines = [";".join(line) for line in ([HEAD, *table])]
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path.cwd())
    print("wrote patients.csv and new.csv")
