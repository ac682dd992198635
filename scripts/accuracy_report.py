"""Write docs/accuracy.md: the largest relative error of every link, kind of row and quantity."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from high_precision import DIGITS, ENDS, WIDTHS, all_measured_errors, grid  # noqa: E402

HEAD = f"""# How exact: links and row terms

Largest relative error, measured against {DIGITS}-digit arithmetic from the definitions
(`tests/high_precision.py`), on {len(grid("exact"))} values of h with |h| up to {max(ENDS):g} and
{len(grid("interval"))} intervals with widths from {min(WIDTHS):g} to {max(WIDTHS):g} in both tails. r and the second
derivatives of r have roots; their errors are relative to max(|value|, r_u + r_v), all others to
the value itself. Values below 1e-290, where a double has fewer digits, are left out.

Written by `make accuracy`; the bounds 1e-11 (second derivatives of r: 1e-6) are tests in
`tests/links/test_links.py`. The letters are those of `anchortm.links`.
"""


def table(kinds: tuple[str, ...]) -> list[str]:
    errors: dict[tuple[str, str], dict[str, float]] = {}
    for link, kind, quantity, error in all_measured_errors():
        if kind in kinds:
            errors.setdefault((link, kind), {})[quantity] = error
    quantities = list(next(iter(errors.values())))
    lines = ["| link | row | " + " | ".join(quantities) + " |", "|---" * (2 + len(quantities)) + "|"]
    for (link, kind), row in errors.items():
        lines.append(f"| {link} | {kind} | " + " | ".join(f"{row[q]:.1e}" for q in quantities) + " |")
    return lines


def main() -> None:
    lines = [HEAD, "## One end", "", *table(("exact", "left", "right")), ""]
    lines += ["## Two ends", "", *table(("interval",)), ""]
    target = ROOT / "docs" / "accuracy.md"
    target.write_text("\n".join(lines))
    print("\n".join(lines))
    print(f"written to {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
