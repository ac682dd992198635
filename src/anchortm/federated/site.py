"""A site: it answers the questions of a coordinator by sums over its rows, after checking its own rules."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm import __version__
from anchortm._typing import Table
from anchortm.exceptions import AnchorTMError, InputError, MissingValueError
from anchortm.federated.answers import ANSWERS, AT_POINTS, Session
from anchortm.federated.ledger import Ledger
from anchortm.federated.masks import FEWEST_SITES, Fixed, Keys, Masks, noise
from anchortm.federated.policy import DisclosureError, Policy, RowsError
from anchortm.federated.questions import check_question
from anchortm.federated.site_rows import Design, SiteRows, content_of, table_of
from anchortm.federated.study import Given, Study, is_name
from anchortm.federated.wire import Message, WireError, digest_of

__all__ = ["Site", "session_of"]

Array = NDArray[np.float64]

MOST_SESSIONS = 4
MOST_AGAINST = 200  # questions about separation in one study: a fit asks once at most


def session_of(study: str, nonces: Mapping[str, str], masks: bool, scale: str) -> str:
    """Return the name of a session, which depends on a fresh number of each site."""
    return digest_of({"study": study, "nonces": dict(nonces), "masks": masks, "scale": scale})


class Site:
    """One hospital, register or company, which keeps its rows and answers by sums.

    Parameters
    ----------
    data : frame
        A pandas, polars or pyarrow table.
    name : str
        The name of the site in the study.
    policy : Policy
        Its rules for disclosure. Rules of the study that are stricter hold as well.
    environments : str, optional
        A column with environments inside the site, such as wards, which the anchor ``site`` then tells apart.
    keys : Keys, optional
        Its private key, for masks. ``LocalSites`` makes keys for sites that have none.
    study : Study, dict or file, optional
        The study that the site has agreed to. Others are refused. By default the site takes the study that the
        coordinator sends.
    ledger : Ledger or file, optional
        Where the site writes down what it was asked; by default in memory.

    Examples
    --------
    >>> import anchortm as atm
    >>> from anchortm.federated import Policy, Site
    >>> data = atm.datasets.load_boston_housing2()
    >>> site = Site(data[:400], "north", policy=Policy(least_rows=50))
    >>> site
    Site('north')
    """

    def __init__(
        self,
        data: Table,
        name: str,
        policy: Policy | None = None,
        environments: str | None = None,
        keys: Keys | None = None,
        *,
        study: Given | None = None,
        ledger: Ledger | str | os.PathLike[str] | None = None,
    ) -> None:
        if not is_name(name):
            raise InputError(f"the name of a site must be printable text of up to 80 characters, not {name!r}")
        if policy is not None and not isinstance(policy, Policy):
            raise InputError(f"policy must be a Policy, not {policy!r}")
        self.data, self.name, self.environments, self.keys = data, name, environments, keys
        self.policy = Policy() if policy is None else policy
        self.study = None if study is None else Study.of(study)
        self.ledger = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
        self._nonce, self._own_secret = "", secrets.token_bytes(32)
        self._sessions: dict[str, Session] = {}

    def __repr__(self) -> str:
        return f"Site({self.name!r})"

    def answer(self, question: bytes) -> bytes:
        """Return the answer to a question, or a refusal that carries no values.

        Parameters
        ----------
        question : bytes
            A message of a coordinator.

        Returns
        -------
        bytes

        Examples
        --------
        >>> import anchortm as atm
        >>> from anchortm.federated import Site
        >>> site = Site(atm.datasets.load_geyser(), "park")
        >>> b"the message is damaged" in site.answer(b"not a question")
        True
        """
        asked: Message | None = None
        try:
            asked = Message.decode(question)
            check_question(asked)
            with np.errstate(all="ignore"):
                return self._answered(asked, question).encode()
        except AnchorTMError as error:
            text, rule = _safe(error)
        except Exception as error:
            text, rule = f"the site cannot answer ({type(error).__name__})", "error"
        fields = {} if asked is None else asked.fields
        study, session = self._study_digest(fields), str(fields.get("session", ""))[:64]
        kind = "unreadable" if asked is None else asked.kind[:40]
        self.ledger.note(study=study, session=session, question=kind, outcome=f"refused: {text}")
        return Message("refused", {"rule": rule, "reason": text}).encode()

    def check(self, study: Given | None = None, scale: str = "continuous") -> list[str]:
        """Return what the rules of the site would refuse in a study, without a connection; an empty list if nothing.

        Parameters
        ----------
        study : Study, dict or file, optional
            By default the study that the site was made with.
        scale : {"continuous", "ordinal", "count"}
            How the model will read the outcome.

        Examples
        --------
        >>> import anchortm as atm
        >>> from anchortm.federated import Site
        >>> site = Site(atm.datasets.load_geyser()[:30], "park")
        >>> site.check({"formula": "waiting ~ duration | site"})
        []
        """
        made = self.study if study is None else Study.of(study)
        if made is None:
            raise InputError("there is no study to check: pass a Study, a dict or a file")
        try:
            table = table_of(self.data, made, self.name, self.environments)
            rows = SiteRows(table, made, made.strict(self.policy), scale)
            state = _own_design(rows)
            said = rows.described()
            rows.with_design(Design(state, tuple(said["classes"]), strata=tuple(said["strata"])))
            rows.policy.check_rows(rows.n_rows, 2 + len(state["levels"]) + len(state["ranges"]))
        except AnchorTMError as error:
            return [str(error)]
        return []

    # questions

    def _answered(self, asked: Message, question: bytes) -> Message:
        if asked.kind == "hello":
            return self._hello(asked)
        if asked.kind == "open":
            return self._open(asked)
        session = self._session(asked)
        digest = self._counted_as(session.study)
        self._check_number(session.rows.policy)
        self._check_kind(session, asked.kind)
        points = self._points(session, asked)
        fields, values = ANSWERS[asked.kind](session, asked)
        if "statuses" not in fields and not session.can_send(values, question):
            raise DisclosureError("the sums are not finite, or too large for masks")
        arrays: dict[str, NDArray[Any]] = {}
        if values.size and session.masks is not None:
            arrays["sums"] = _withheld(fields, session.masks.hide(values, asked.fields["round"], question))
        elif values.size:
            arrays["sums"] = values
        self.ledger.note(
            study=digest,
            session=asked.fields["session"][:16],
            members=session.listed,
            question=asked.kind,
            point=points,
            numbers=int(values.size),
            outcome="answered",
        )
        return Message(asked.kind, fields, arrays)

    def _hello(self, asked: Message) -> Message:
        if asked.fields["version"] != __version__:
            raise WireError(
                f"the coordinator runs anchortm {asked.fields['version'][:40]} and this site {__version__}: install "
                "the same version"
            )
        self._nonce = secrets.token_hex(16)
        public = "" if self.keys is None else self.keys.public
        own = "" if self.study is None else self.study.digest
        fields = {"name": self.name, "version": __version__, "nonce": self._nonce, "public": public, "study": own}
        return Message("hello", fields)

    def _open(self, asked: Message) -> Message:
        study = Study.of(asked.fields["study"])
        nonces, masked, scale = asked.fields["nonces"], asked.fields["masks"], asked.fields["scale"]
        self._check_open(study, nonces, masked)
        session = session_of(study.digest, nonces, masked, scale)
        masks = None
        if masked:
            if self.keys is None:
                raise DisclosureError("masks need a private key of this site: make one with anchortm site keys")
            members = {name: key for name, key in study.members.items() if name in nonces}
            masks = Masks.of(self.keys, self.name, members, session)
        table = table_of(self.data, study, self.name, self.environments)
        rows = SiteRows(table, study, study.strict(self.policy), scale)
        self._check_number(rows.policy)
        facts = rows.described()
        self._nonce = ""
        own = self.name, self._secret
        made = Session(study, tuple(sorted(nonces)), masks, rows, content_of(table), own)
        while len(self._sessions) >= MOST_SESSIONS:  # those with all sites stay while single sites are left out
            self._sessions.pop(min(self._sessions, key=lambda one: len(self._sessions[one].members)))
        self._sessions[session] = made
        self.ledger.note(
            study=self._counted_as(study),
            session=session[:16],
            members=made.listed,
            question="open",
            outcome="answered",
        )
        mark = hmac.new(self._secret, made.content, hashlib.sha256).hexdigest()
        return Message("open", {"session": session, "facts": facts, "fingerprint": mark})

    def _check_open(self, study: Study, nonces: Mapping[str, str], masked: bool) -> None:
        """Refuse sessions that this site has not agreed to, or that were not begun with it."""
        if self.study is not None:
            _check_agreed(study, self.study)
        if not self._nonce or nonces.get(self.name) != self._nonce:
            raise WireError("the session was not begun with this site: say hello first")
        if not set(nonces) <= set(study.members):
            raise DisclosureError("the session has sites that are not members of the study")
        members = study.members if self.study is None or not self.study.members else self.study.members
        if study.masks and not masked and len(members) >= FEWEST_SITES:
            raise DisclosureError("the study asks for masks, and the coordinator does not use them")

    def _counted_as(self, study: Study) -> str:
        """Return the study under which answers are counted: the agreed one, also if members are left out of it."""
        return study.digest if self.study is None else self.study.digest

    def _limited(self) -> str | None:
        """Return the study whose answers are limited; None for those of all, as the coordinator can change it."""
        return None if self.study is None else self.study.digest

    def _check_number(self, policy: Policy) -> None:
        """Refuse more answers than the policy allows."""
        if self.ledger.answers(self._limited()) >= policy.most_answers:
            raise DisclosureError(f"the site has given all {policy.most_answers} answers of this study")

    def _check_kind(self, session: Session, kind: str) -> None:
        """Refuse more answers of one kind than are allowed."""
        policy = session.rows.policy
        limits = {
            "score": (policy.most_scores, 1, f"all {policy.most_scores} scores of this study, which no mask hides"),
            "against": (MOST_AGAINST, 1, f"all {MOST_AGAINST} counts of rows against directions of this study"),
            "calibration": (  # each member counts its rows at a point of its own
                policy.most_calibrations,
                len(session.members),
                f"all {policy.most_calibrations} counts of predicted probabilities of this study",
            ),
        }
        if kind in limits:
            most, each, what = limits[kind]
            if self.ledger.answers(self._limited(), kind) >= most * each:
                raise DisclosureError(f"the site has given {what}")

    @property
    def _secret(self) -> bytes:
        """Return a secret for fingerprints: that of the keys, which a restarted site still has."""
        return self._own_secret if self.keys is None else self.keys.secret

    def _session(self, asked: Message) -> Session:
        session = self._sessions.get(asked.fields["session"])
        if session is None:
            raise WireError("the site does not know this session: it may have been started again")
        if asked.fields["round"] <= session.round:
            raise WireError("this round was asked before: each question needs a round of its own")
        session.round = asked.fields["round"]
        table = table_of(self.data, session.study, self.name, self.environments)
        if content_of(table) != session.content:
            raise DisclosureError("the rows of the site have changed since the session began: start the fit again")
        return session

    def _points(self, session: Session, asked: Message) -> list[str]:
        """Return digests of the parameters asked about; refuse those asked before with other members."""
        if asked.kind not in AT_POINTS:
            return []
        objective, found = session.objective(asked), []
        for v in asked.arrays["points"]:
            raw = np.concatenate(objective.coordinates.split(v))
            text = f"{session.study.formula} {asked.kind} {asked.fields['plan']} " + " ".join(f"{x:.8e}" for x in raw)
            found.append(hashlib.sha256(text.encode()).hexdigest()[:32])
        members = session.listed
        for point in found:
            if self.ledger.members_at(point) - {members}:
                raise DisclosureError(
                    "other members were asked about the same parameters, and the difference would show one site: "
                    "start the fit again from other values"
                )
        return found

    def _study_digest(self, fields: Mapping[str, Any]) -> str:
        session = self._sessions.get(str(fields.get("session", "")))
        return "" if session is None else self._counted_as(session.study)


def _withheld(fields: Mapping[str, Any], hidden: Fixed) -> Fixed:
    """Return masked sums, with noise at points where the site withholds them.

    Without noise the total there would be that of the other sites, and the next one nearby would show this site's.
    """
    statuses = fields.get("statuses", [])
    if all(status == "ok" for status in statuses):
        return hidden
    by_point = hidden.reshape(len(statuses), -1, 2).copy()
    for k, status in enumerate(statuses):
        if status != "ok":
            by_point[k] = noise(by_point.shape[1:2])
    return by_point.reshape(hidden.shape)


def _check_agreed(sent: Study, own: Study) -> None:
    """Refuse a study that is not the one a site agreed to."""
    if not _agrees(sent, own):
        raise DisclosureError("the coordinator's study is not the one that this site has agreed to")
    if own.members and set(sent.members) < set(own.members) and not own.leave_out:
        raise DisclosureError(
            "the study that this site has agreed to does not allow a session without some members, because the "
            "difference from a session with all of them reveals what these send: set leave_out = true in it, or agree "
            "on another study"
        )
    if own.masks and not own.members:
        raise DisclosureError(
            "the study that this site has agreed to names no members, so a coordinator could invent members and undo "
            "the masks: list the members with their public keys, or set masks = false"
        )


def _agrees(sent: Study, own: Study) -> bool:
    """Return whether a study is the one a site agreed to: the same but for members that are left out."""
    fewer = {name: key for name, key in own.members.items() if name in sent.members} if own.members else sent.members
    return sent.record() == own.among(fewer).record()


def _safe(error: AnchorTMError) -> tuple[str, str]:
    """Return what may be said of an error outside of the site, and its kind: other messages can quote values."""
    if isinstance(error, DisclosureError):
        return str(error), "policy"
    if isinstance(error, WireError):
        return str(error), "protocol"
    if isinstance(error, RowsError):
        return str(error), "rows"
    if isinstance(error, MissingValueError):
        return "rows have missing values: clean the table, or set missing = 'drop' in the study", "rows"
    return "the site cannot read its rows as the study says: anchortm site check shows there what is wrong", "rows"


def _own_design(rows: SiteRows) -> dict[str, Any]:
    """Return the design that a site alone would have, to check its cells."""
    formula = rows.formula
    formula.settle(rows.facts, rows.frame)
    return formula.state()
