"""One session of a coordinator with its sites: questions go out, answers are checked and added up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm import __version__
from anchortm.exceptions import InputError
from anchortm.federated.masks import FEWEST_SITES, total_of
from anchortm.federated.policy import DisclosureError
from anchortm.federated.questions import check_answer
from anchortm.federated.site import session_of
from anchortm.federated.study import Study
from anchortm.federated.transport import Transport
from anchortm.federated.wire import Message, WireError

__all__ = ["Conversation", "Reply"]

Array = NDArray[np.float64]


class Reply:
    """What all sites answered: the total of their numbers, and the fields of each."""

    def __init__(self, fields: Mapping[str, dict[str, Any]], total: Array) -> None:
        self.fields, self.total = fields, total


class Conversation:
    """A session with some sites: who takes part is fixed, and each question has a round of its own.

    Attributes
    ----------
    study : Study
        The study with the members of this session.
    rounds, bytes_sent, bytes_received : int
        How much was asked so far; bytes are those of all sites together.
    facts : dict
        What each site said of its columns.
    fingerprints : dict
        A mark of the rows of each site, which only the site can make.
    """

    def __init__(
        self, transport: Transport, study: Study, names: Sequence[str], masks: bool, scale: str, timeout: float
    ) -> None:
        self.transport, self.timeout, self.scale = transport, timeout, scale
        self.names = sorted(names)
        self.rounds = self.bytes_sent = self.bytes_received = self._round = 0
        self.session = ""
        hello = self._each(Message("hello", {"version": __version__, "purpose": "fit"}), "hello")
        for name, answer in hello.items():
            if answer["name"] != name:
                raise WireError(f"the site {answer['name'][:80]!r} answers under the name {name!r}")
        self.study = _with_members(study, {name: answer["public"] for name, answer in hello.items()})
        nonces = {name: answer["nonce"] for name, answer in hello.items()}
        self.masked = masks and len(self.names) >= FEWEST_SITES
        self.session = session_of(self.study.digest, nonces, self.masked, scale)
        fields = {"study": self.study.record(), "nonces": nonces, "masks": self.masked, "scale": scale}
        opened = self._each(Message("open", fields), "open")
        if any(answer["session"] != self.session for answer in opened.values()):
            raise WireError("a site has opened another session than the one it was asked for")
        self.facts = {name: answer["facts"] for name, answer in opened.items()}
        self.fingerprints = {name: answer["fingerprint"] for name, answer in opened.items()}

    def ask(
        self,
        kind: str,
        fields: dict[str, Any],
        arrays: dict[str, Array],
        size: int,
        to: Sequence[str] | None = None,
    ) -> Reply:
        """Return the answers of all sites, or of some, to a question for so many numbers."""
        self._round += 1
        message = Message(kind, {"session": self.session, "round": self._round, **fields}, arrays)
        answers = self._raw(message, self.names if to is None else to)
        parts = []
        for name, answer in answers.items():
            try:
                check_answer(answer, kind, size, self.masked, arrays["points"].shape[0] if "points" in arrays else 0)
            except WireError as error:
                raise WireError(f"the site {name!r}: {error}") from None
            if size:
                parts.append(answer.arrays["sums"])
        total = np.zeros(0)
        if size:
            total = total_of(parts) if self.masked else np.sum(np.array(parts), axis=0)
        return Reply({name: answer.fields for name, answer in answers.items()}, total)

    def _each(self, message: Message, kind: str) -> dict[str, dict[str, Any]]:
        """Return the fields of the answers to a question outside of rounds."""
        answers = self._raw(message, self.names)
        for name, answer in answers.items():
            try:
                check_answer(answer, kind, 0, False)
            except WireError as error:
                raise WireError(f"the site {name!r}: {error}") from None
        return {name: answer.fields for name, answer in answers.items()}

    def _raw(self, message: Message, to: Sequence[str]) -> dict[str, Message]:
        """Return the decoded answers; raise an error if a site refuses."""
        question = message.encode()
        self.rounds += 1
        self.bytes_sent += len(question) * len(to)
        found = self.transport.ask(question, self.timeout, to)
        answers = {}
        for name in to:
            if name not in found:
                raise WireError(f"the site {name!r} has not answered")
            self.bytes_received += len(found[name])
            try:
                answers[name] = Message.decode(found[name])
            except WireError as error:
                raise WireError(f"the site {name!r}: {error}") from None
        _check_refusals(answers)
        return answers


def _check_refusals(answers: Mapping[str, Message]) -> None:
    """Raise an error that names the sites that refused, with their reasons."""
    refused = {name: answer.fields for name, answer in answers.items() if answer.kind == "refused"}
    if not refused:
        return
    reasons = [f"the site {name!r} refuses: {str(fields.get('reason'))[:400]}" for name, fields in refused.items()]
    rules = {str(fields.get("rule")) for fields in refused.values()}
    kind = DisclosureError if "policy" in rules else WireError if "protocol" in rules else InputError
    raise kind("; ".join(reasons))


def _with_members(study: Study, found: Mapping[str, str]) -> Study:
    """Return the study with its members; those of a study that names none are the sites that are there."""
    if not study.members:
        return study.among(found)
    foreign = sorted(set(found) - set(study.members))
    if foreign:
        raise InputError(f"sites are not members of the study: {', '.join(foreign)}; it has {', '.join(study.members)}")
    changed = [name for name, key in found.items() if study.members[name] not in ("", key)]
    if changed:
        raise WireError(f"another public key than the study's has come from {', '.join(changed)}: check who answers")
    return study.among({name: study.members[name] or key for name, key in found.items()})
