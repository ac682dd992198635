"""All parts of the reproduction, in order, and the table of claims."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from anchortm._util.files import check_regular, write_whole
from anchortm._util.progress import Task, above
from anchortm.exceptions import InputError
from anchortm.reproduce import boston, identities, iv1, iv2, la, nla
from anchortm.reproduce.engine import CAVEAT, NOT, REPRODUCED, Claim, Options, Part, run_part

__all__ = ["PARTS", "as_markdown", "choose", "claim_frame", "reproduce"]

PARTS: list[Part] = [identities.PART, boston.PART, la.PART, *nla.PARTS, iv1.PART, iv2.PART]


FIELDS = ["id", "sentence", "measured", "verdict", "reason"]


def choose(names: Sequence[str]) -> list[Part]:
    """Return the parts of these names; ``all`` is all of them."""
    known = {part.name: part for part in PARTS}
    wanted = list(known) if not names or "all" in names else list(dict.fromkeys(names))
    unknown = [name for name in names if name not in known and name != "all"]
    if unknown:
        raise InputError(f"unknown parts: {', '.join(unknown)}; there are {', '.join(known)}, or all")
    return [known[name] for name in wanted]


def reproduce(
    names: Sequence[str], folder: Path, options: Options, *, fresh: bool = False, say: Callable[[str], None] = print
) -> list[Claim]:
    """Run parts of the reproduction, write their results to ``folder``, and return their claims."""
    found: list[Claim] = []
    parts = choose(names)
    with Task("reproduce", len(parts), options.progress) as task:
        for part in parts:
            task.label = f"reproduce {part.name}"
            start = time.perf_counter()
            claims, computed = run_part(part, folder, options, fresh)
            how = f"{time.perf_counter() - start:.0f} s" if computed else "stored results"
            with above():
                say(f"{part.title}: {how}")
            found += claims
            task.step()
    table = claim_frame(found).assign(runs=options.runs or "published", seed=options.seed, trees=options.trees)
    table = _with_earlier(table, folder / "claims.csv")
    write_whole(folder / "claims.csv", lambda file: table.to_csv(file, index=False))
    every = [Claim(*row) for row in table[FIELDS].fillna("").itertuples(index=False)]
    write_whole(folder / "claims.md", lambda file: file.write_text(as_markdown(every), encoding="utf-8"))
    return found


def _with_earlier(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Return the claims together with stored claims of other parts, in the order of the parts."""
    try:
        check_regular(path)
        earlier = pd.read_csv(path, dtype=str)
    except (OSError, ValueError):
        return table
    both = pd.concat([table.astype(str), earlier[~earlier["id"].isin(table["id"])]])
    order = both["id"].str.extract(r"([A-Z])(\d+)")
    place = order[0].map({letter: k for k, letter in enumerate("ABCNEF")}) * 100 + order[1].astype(float)
    return both.iloc[place.argsort(kind="stable")].reset_index(drop=True)


def claim_frame(claims: Sequence[Claim]) -> pd.DataFrame:
    """Return one row for each claim."""
    return pd.DataFrame([vars(claim) for claim in claims], columns=FIELDS)


def as_markdown(claims: Sequence[Claim]) -> str:
    """Return the claims as a Markdown table with a count of verdicts."""
    counts = Counter(claim.verdict for claim in claims)
    head = ", ".join(f"{counts[verdict]} {verdict}" for verdict in (REPRODUCED, CAVEAT, NOT))

    def cell(text: str) -> str:
        return text.replace("|", "\\|")

    rows = [f"| {c.id} | {cell(c.sentence)} | {cell(c.measured)} | {c.verdict} | {cell(c.reason)} |" for c in claims]
    return "\n".join(
        [
            f"{len(claims)} claims: {head}.",
            "",
            "| # | claim | measured | verdict | why |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )
