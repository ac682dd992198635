"""Fits to sites from the command line: the hub that sites dial in to, and its coordinator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from anchortm.exceptions import InputError

if TYPE_CHECKING:
    from anchortm.federated import Certificate, Coordinator

__all__ = ["address_of", "certificate_of", "connected"]


def certificate_of(options: Any) -> Certificate:
    """Return the files of a connection; refuse if one is not given."""
    from anchortm.federated import Certificate

    absent = [f"--{name}" for name in ("cert", "key", "ca") if getattr(options, name) is None]
    if absent:
        raise InputError(f"connections need certificates: give {', '.join(absent)}; the guide says how to make them")
    return Certificate(options.cert, options.key, options.ca)


def address_of(text: str, option: str) -> tuple[str, int]:
    """Return host and port."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise InputError(f"{option} must be a host and a port, such as hub.example.org:8443, not {text}")
    return host, int(port)


@contextmanager
def connected(options: Any) -> Iterator[Coordinator]:
    """Yield the coordinator of a study once all sites have dialled in."""
    from anchortm.cli.output import tell
    from anchortm.federated import Coordinator, Hub, Study

    if options.data is not None:
        raise InputError("--sites takes the place of the table: give one of them")
    if not options.sites:
        raise InputError("name a table, or a study with --sites")
    study = Study.of(options.sites)
    if not study.members:
        raise InputError(f"{options.sites} names no members: add them, so that the hub knows who may join")
    if options.formula.strip() != study.formula.strip():
        raise InputError(f"--formula differs from that of the study, which all sites have agreed to: {study.formula}")
    foreign = [f"--{name}" for name in ("weights", "offset", "missing") if getattr(options, name) is not None]
    if foreign:
        raise InputError(f"{', '.join(foreign)}: write it in the study, where all sites read it")
    host, port = address_of(options.listen, "--listen")
    with Hub(list(study.members), certificate_of(options), host, port) as hub:
        tell(options, f"waiting at {host}:{hub.address[1]} for {', '.join(hub.names)}")
        hub.wait(options.wait)
        yield Coordinator(hub, study)
