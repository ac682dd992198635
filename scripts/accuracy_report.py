"""Write docs/accuracy.md: the largest relative error of every link, kind of row and quantity."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from high_precision import (  # noqa: E402
    DIGITS,
    ENDS,
    WIDTHS,
    all_measured_errors,
    compiled_terms,
    grid,
    measured_errors,
)

from anchortm.kernels import NAME  # noqa: E402
from anchortm.kernels.rows import LAWS  # noqa: E402
from anchortm.links import LINKS  # noqa: E402

HEAD = f"""# How exact: links and row terms

How exact are log-likelihoods, residuals and their derivatives? The tables give the largest relative error,
measured against {DIGITS}-digit arithmetic from the definitions (`tests/high_precision.py`), on
{len(grid("exact"))} values of h with |h| up to {max(ENDS):g} and {len(grid("interval"))} intervals with widths from
{min(WIDTHS):g} to {max(WIDTHS):g} in both tails. r and the second derivatives of r can be zero; their errors are
relative to max(|value|, r_u + r_v), all others to the value itself. Values below 1e-290, where a double has
fewer digits, are left out.

Written by `make accuracy`; the bounds 1e-11 (second derivatives of r: 1e-6) are tests in
`tests/links/test_links.py`. The letters are those of `anchortm.links`.
"""


COMPILED = """## In the compiled kernels

The same values of h. Rows with |h| of 700 or more are left to the functions above. The bound 3e-13 is a test in
`tests/kernels/test_rows.py`.
"""


def compiled_errors() -> Iterator[tuple[str, str, str, float]]:
    for name, kind in LAWS:
        if name in LINKS:
            for quantity, error in measured_errors(LINKS[name], kind, compiled_terms(name, kind)):
                yield name, kind, quantity, error


def table(measured: Iterable[tuple[str, str, str, float]], kinds: tuple[str, ...]) -> list[str]:
    errors: dict[tuple[str, str], dict[str, float]] = {}
    for link, kind, quantity, error in measured:
        if kind in kinds:
            errors.setdefault((link, kind), {})[quantity] = error
    quantities = list(next(iter(errors.values())))
    lines = ["| link | row | " + " | ".join(quantities) + " |", "|---" * (2 + len(quantities)) + "|"]
    for (link, kind), row in errors.items():
        lines.append(f"| {link} | {kind} | " + " | ".join(f"{row[q]:.1e}" for q in quantities) + " |")
    return lines


def main() -> None:
    one_end = ("exact", "left", "right")
    lines = [HEAD, "## One end", "", *table(all_measured_errors(), one_end), ""]
    lines += ["## Two ends", "", *table(all_measured_errors(), ("interval",)), ""]
    if NAME == "compiled":
        lines += [COMPILED, *table(compiled_errors(), one_end), ""]
    target = ROOT / "docs" / "accuracy.md"
    target.write_text("\n".join(lines))
    print("\n".join(lines))
    print(f"written to {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
