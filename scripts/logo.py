"""Draw the logo and the icon of the site: an anchor whose arms are the density of a predicted distribution.

Both are written to docs/_static. Their colours are those of anchored fits and of maximum likelihood in all pictures;
they are seen on light and on dark ground.
"""

from __future__ import annotations

from math import exp
from pathlib import Path

from anchortm.plotting.style import STRATEGIES

STATIC = Path(__file__).resolve().parents[1] / "docs" / "_static"
BLUE, ORANGE = "#2f8fd3", STRATEGIES["maximum likelihood"][0]  # the blue of anchored fits, lighter for dark ground
MIDDLE, LOW, DEPTH, SPREAD = 32.0, 34.0, 22.0, 9.5  # of the arms


def arms() -> str:
    """Return the path of the arms: a normal density, upside down."""
    points = [MIDDLE + step for step in range(-26, 27, 2)]
    at = [(x, LOW + DEPTH * exp(-0.5 * ((x - MIDDLE) / SPREAD) ** 2)) for x in points]
    return "M" + " L".join(f"{x:g} {y:.2f}" for x, y in at)


def picture(width: float) -> str:
    """Return the picture with lines of a width."""
    lines = f'fill="none" stroke-width="{width:g}" stroke-linecap="round" stroke-linejoin="round"'
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64" role="img" aria-label="anchortm">\n'
        f'  <path d="{arms()}" {lines} stroke="{ORANGE}"/>\n'
        f'  <g {lines} stroke="{BLUE}">\n'
        '    <circle cx="32" cy="11" r="5.5"/>\n'
        '    <path d="M32 16.5 V56 M21 25 H43"/>\n'
        "  </g>\n"
        "</svg>\n"
    )


def main() -> None:
    """Write both."""
    for name, width in (("logo", 4.5), ("favicon", 6.5)):
        (STATIC / f"{name}.svg").write_text(picture(width), encoding="utf-8")


if __name__ == "__main__":
    main()
