"""The ledger of a site: one line for each question it was asked, which a data steward can read."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from anchortm.exceptions import InputError

__all__ = ["Ledger"]

MAX_LINE = 100_000
LONGEST = 1_000  # of what a coordinator can make long, such as the reason of a refusal
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
        self._torn: int | None = None  # where a line begins that was not written to its end
        if self.path is not None and self.path.exists():
            for at, entry in _read(self.path):
                if entry is None:
                    self._torn = at
                else:
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
        entry: dict[str, Any] = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        entry |= {name: _short(value) for name, value in fields.items()}
        if self.path is not None:
            try:
                if self._torn is not None:
                    os.truncate(self.path, self._torn)
                    self._torn = None
                with open(self.path, "a", encoding="utf-8") as file:
                    file.write(json.dumps(entry) + "\n")
                    file.flush()
                    os.fsync(file.fileno())
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
            yield _visible(f"{e['time']} {e.get('question', '')!s:<12} {numbers:>13}  {e.get('outcome', '')}")


def _short(value: object) -> object:
    """Return a text that fits into a line; long ones keep a digest, so that different ones stay different."""
    if not isinstance(value, str) or len(value) <= LONGEST:
        return value
    return f"{value[:LONGEST]}... ({hashlib.sha256(value.encode('utf-8', 'backslashreplace')).hexdigest()})"


def _visible(text: str) -> str:
    """Return a text without line breaks and control characters, by which a coordinator could forge lines."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _read(path: Path) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield the entries of a file and where they begin; None for a last line that was not written to its end.

    Such a line is left by a crash: the answer to its question has not left the site.
    """
    at = 0
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE + 1), b""), 1):
                try:
                    entry = json.loads(line) if len(line) <= MAX_LINE else None
                except (ValueError, RecursionError):
                    entry = None
                if not line.endswith(b"\n") and len(line) <= MAX_LINE:
                    yield at, None
                    return
                if not isinstance(entry, dict) or "time" not in entry:
                    raise InputError(f"line {number} of the ledger {path} is damaged: move the file away, and ask why")
                yield at, entry
                at += len(line)
    except OSError as error:
        raise InputError(f"cannot read the ledger {path}: {error}") from None
