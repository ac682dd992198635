"""Carry questions to sites by NVFlare, for consortia that run it already: its Collab API, tried with version 2.9.

``SiteApp`` runs at the clients and ``NVFlareSites`` is the transport of the coordinator, inside a function that NVFlare
runs at the server. anchortm must be installed at all sites; each has its own settings, so that the job says nothing
about files there.
"""

from __future__ import annotations

import importlib
import os
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from anchortm._util.files import read_bytes
from anchortm.exceptions import InputError, UnavailableError
from anchortm.federated.masks import Keys
from anchortm.federated.policy import Policy
from anchortm.federated.site import Site
from anchortm.federated.transport import SiteLostError

collab: Any = None
with suppress(ImportError):  # without it the classes can be imported, and say what is missing when they are used
    collab = importlib.import_module("nvflare.collab").collab

__all__ = ["SETTINGS", "NVFlareSites", "SiteApp"]

SETTINGS = "ANCHORTM_SITE"  # the environment variable with the settings of a site, a file or a folder of such files
FIELDS = ("data", "study", "environments", "masks", "ledger", "policy")


def publish(function: Any) -> Any:
    """Return a method that other sites may call."""
    return function if collab is None else collab.publish(function)


def _needed() -> Any:
    if collab is None:
        raise UnavailableError("this needs NVFlare: pip install nvflare")
    return collab


def site_of(name: str) -> Site:
    """Return the site that the settings on this machine describe."""
    import pandas as pd

    given = os.environ.get(SETTINGS)
    if given is None:
        raise InputError(f"set {SETTINGS} to the settings of this site, a .toml file with data and study")
    path = Path(given)
    path = path / f"{name}.toml" if path.is_dir() else path
    settings = tomllib.loads(read_bytes(path, 2**20).decode())
    foreign = sorted(set(settings) - set(FIELDS))
    if foreign or "data" not in settings or "study" not in settings:
        raise InputError(f"the settings {path} need data and study, and may have {', '.join(FIELDS[2:])}")
    data = str(settings["data"])
    table = pd.read_parquet(data) if data.endswith(".parquet") else pd.read_csv(data)
    masks = settings.get("masks")
    keys = None if masks is None else Keys(bytes.fromhex(read_bytes(masks, 1000).decode().strip()))
    policy = Policy.of(settings["policy"]) if "policy" in settings else None
    ledger = settings.get("ledger", path.with_name(f"{name}.ledger.jsonl"))  # answers are counted over all jobs
    more = {"study": settings["study"], "ledger": ledger}
    return Site(table, name, policy, settings.get("environments"), keys, **more)


class SiteApp:
    """The client of an NVFlare job: it answers the questions of a coordinator by its own settings."""

    _site: Site | None = None

    @publish
    def answer(self, question: bytes) -> bytes:
        """Return the answer of this site."""
        if self._site is None:
            self._site = site_of(str(_needed().site_name))
        return self._site.answer(question)


class NVFlareSites:
    """The transport of a coordinator that runs as the server of an NVFlare job."""

    @property
    def names(self) -> list[str]:
        """Return the names of the clients."""
        return sorted(str(client.name) for client in _needed().clients)

    def ask(self, question: bytes, timeout: float, to: Sequence[str]) -> dict[str, bytes]:
        """Return the answers of these sites by name; raise ``SiteLostError`` if one does not answer in time."""
        found = _needed().get_clients(list(to))(timeout=timeout).answer(question)
        answers = {str(name): bytes(answer) for name, answer in found}
        absent = [name for name in to if name not in answers]
        if absent:
            raise SiteLostError(f"no answer by NVFlare from the site {', '.join(map(repr, absent))}")
        return answers
