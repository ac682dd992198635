"""The ledger of a site: one line for each question it was asked, which a data steward can read."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from anchortm.exceptions import InputError

__all__ = ["Ledger"]

MAX_LINE = 10_000
FIELDS = ("time", "study", "session", "members", "question", "point", "numbers", "outcome")


class Ledger:
    """What a site was asked and whether it answered, in memory or in a file with a JSON object on each line.

    Parameters
    ----------
    path : path, optional
        The file. Lines are appended, and those of earlier runs count towards the limit of answers.

    Examples
    --------
    >>> from anchortm.federated import Ledger
    >>> ledger = Ledger()
    >>> ledger.note(study="s1", question="sums", numbers=14, outcome="answered")
    >>> ledger.answers("s1"), ledger.entries[0]["question"]
    (1, 'sums')
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = None if path is None else Path(path)
        self.entries: list[dict[str, Any]] = []
        self._answers: Counter[object] = Counter()
        self._members: dict[str, set[str]] = {}
        if self.path is not None and self.path.exists():
            for entry in _read(self.path):
                self._keep(entry)

    def note(self, **fields: object) -> None:
        """Write down one question, with its time.

        Examples
        --------
        >>> from anchortm.federated import Ledger
        >>> ledger = Ledger()
        >>> ledger.note(study="s1", question="columns", outcome="refused: too few rows")
        >>> ledger.answers("s1")
        0
        """
        entry: dict[str, Any] = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **fields}
        if self.path is not None:
            try:
                with open(self.path, "a", encoding="utf-8") as file:
                    file.write(json.dumps(entry) + "\n")
                    file.flush()
            except OSError as error:
                raise InputError(f"cannot write the ledger {self.path}: {error.strerror or error}") from None
        self._keep(entry)

    def _keep(self, entry: dict[str, Any]) -> None:
        """Remember an entry."""
        self.entries.append(entry)
        if entry.get("outcome") == "answered":
            study, question, points = str(entry.get("study")), entry.get("question"), entry.get("point") or ()
            for counted in (study, (study, question), None, (None, question)):
                self._answers[counted] += max(1, len(points))
            for point in points:
                self._members.setdefault(str(point), set()).add(str(entry.get("members")))

    def answers(self, study: str | None, question: str | None = None) -> int:
        """Return how many answers were given in a study, or to questions of one kind; in all studies if it is None.

        Each point of a question counts as one answer.

        Examples
        --------
        >>> from anchortm.federated import Ledger
        >>> Ledger().answers("s1")
        0
        """
        return self._answers[study if question is None else (study, question)]

    def members_at(self, point: str) -> set[str]:
        """Return with which members a point was asked about before.

        Examples
        --------
        >>> from anchortm.federated import Ledger
        >>> ledger = Ledger()
        >>> ledger.note(study="s1", point=["p"], members="a,b,c", outcome="answered")
        >>> ledger.members_at("p")
        {'a,b,c'}
        """
        return self._members.get(point, set())

    def lines(self) -> Iterator[str]:
        """Yield the ledger as text, a line for each question.

        Examples
        --------
        >>> from anchortm.federated import Ledger
        >>> ledger = Ledger()
        >>> ledger.note(study="s1", question="sums", numbers=14, outcome="answered")
        >>> next(ledger.lines())[21:]
        'sums            14 numbers  answered'
        """
        for e in self.entries:
            numbers = f"{e.get('numbers', 0)} numbers"
            yield f"{e['time']} {e.get('question', '')!s:<12} {numbers:>13}  {e.get('outcome', '')}"


def _read(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the entries of a file."""
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                try:
                    entry = json.loads(line) if len(line) <= MAX_LINE else None
                except (ValueError, RecursionError):
                    entry = None
                if not isinstance(entry, dict) or "time" not in entry:
                    raise InputError(f"line {number} of the ledger {path} is damaged: move the file away, and ask why")
                yield entry
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the ledger {path}: {error}") from None
