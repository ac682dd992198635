"""Sites in other places: they dial out to a hub over TLS, where both sides show certificates.

No site opens a port. The hub listens, checks certificates, and passes questions on. Each frame is a message with its
size before it. The name of a site is the common name of its certificate.
"""

from __future__ import annotations

import queue
import socket
import ssl
import struct
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from anchortm import __version__
from anchortm.exceptions import InputError
from anchortm.federated.site import Site
from anchortm.federated.transport import SiteLostError
from anchortm.federated.wire import MAX_BYTES, Message, WireError

__all__ = ["Certificate", "Hub", "join_hub"]

SIZE = struct.Struct(">I")
LIMIT = MAX_BYTES + 64
HANDSHAKE = 10.0  # seconds for a site to show its certificate and its name
MOST_WAITING = 64  # connections that have not shown a certificate yet
RETRY = 0.5  # seconds between attempts to reach the hub
MOST_HELLO = 10_000  # bytes of the message with which a site joins
STALLED = 30.0  # seconds for the other side to take a frame
KEPT = 100  # reasons why connections were turned away


@dataclass(frozen=True)
class Certificate:
    """The files of one side of a connection: its certificate, its private key, and the authority that both trust.

    Parameters
    ----------
    certificate, key : str
        PEM files.
    ca : str
        The certificate of the authority that has signed those of the hub and of all sites.

    Examples
    --------
    >>> from anchortm.federated import Certificate
    >>> Certificate("north.pem", "north.key", "ca.pem").ca
    'ca.pem'
    """

    certificate: str
    key: str
    ca: str

    def context(self, server: bool) -> ssl.SSLContext:
        """Return the settings of TLS for the hub or for a site; both sides must show a certificate."""
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            made.load_cert_chain(self.certificate, self.key)
            made.load_verify_locations(self.ca)
        except (OSError, ssl.SSLError) as error:
            raise InputError(
                f"cannot read the certificates {self.certificate}, {self.key}, {self.ca}: {error}"
            ) from None
        made.verify_mode = ssl.CERT_REQUIRED
        made.check_hostname = not server
        return made


def send(connection: socket.socket, data: bytes) -> None:
    """Send one frame."""
    connection.sendall(SIZE.pack(len(data)) + data)


def receive(connection: socket.socket, limit: int = LIMIT, patient: bool = False) -> bytes:
    """Return one frame; an empty one if the other side has closed the connection.

    With ``patient`` the timeout of the connection holds for sending only.
    """
    head = _exactly(connection, SIZE.size, patient)
    if not head:
        return b""
    (size,) = SIZE.unpack(head)
    if size > limit:
        raise WireError(f"a frame of {size} bytes is longer than allowed")
    return _exactly(connection, size, patient)


def _exactly(connection: socket.socket, size: int, patient: bool) -> bytes:
    parts, left = [], size
    while left:
        try:
            part = connection.recv(min(left, 2**20))
        except TimeoutError:
            if patient:
                continue
            raise
        if not part:
            return b""
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def name_in(connection: ssl.SSLSocket) -> str:
    """Return the common name in the certificate of the other side."""
    subject: Any = (connection.getpeercert() or {}).get("subject", ())
    return next((str(value) for part in subject for key, value in part if key == "commonName"), "")


class Hub:
    """Waits for sites that dial in over TLS, and carries questions to them. Use it as a context, or call ``close``.

    Parameters
    ----------
    names : sequence of str
        The sites that may join: the common names of their certificates.
    certificate : Certificate
        The certificate of the hub.
    host, port : str, int
        Where to listen; port 0 takes a free one, see ``address``.

    Examples
    --------
    >>> from anchortm.federated import Certificate, Hub
    >>> files = Certificate("hub.pem", "hub.key", "ca.pem")
    >>> with Hub(["east", "north", "west"], files, port=8443) as hub:  # doctest: +SKIP
    ...     hub.wait(timeout=600.0)
    """

    def __init__(self, names: Sequence[str], certificate: Certificate, host: str = "127.0.0.1", port: int = 0) -> None:
        if not names or len(set(names)) < len(names):
            raise InputError("names must be those of different sites, at least one")
        self._names = sorted(names)
        self._context = certificate.context(server=True)
        try:
            self._socket = socket.create_server((host, port))
        except OSError as error:
            raise InputError(f"cannot listen at {host}:{port}: {error.strerror or error}") from None
        self._socket.settimeout(0.2)
        self._sites: dict[str, ssl.SSLSocket] = {}
        self._owed: dict[ssl.SSLSocket, int] = {}  # answers that have not come yet
        self._due: dict[ssl.SSLSocket, int] = {}  # answers that have not been read yet
        self._answers: queue.Queue[tuple[str, ssl.SSLSocket, bytes, str]] = queue.Queue()
        self._lock, self._joined, self._closed = threading.Lock(), threading.Condition(), False
        self._turns = threading.Semaphore(MOST_WAITING)
        self.refused: list[str] = []  # why connections were turned away
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> tuple[str, int]:
        """Return the host and the port at which the hub listens."""
        host, port = self._socket.getsockname()[:2]
        return str(host), int(port)

    @property
    def names(self) -> list[str]:
        """Return the names of the sites that may join."""
        return list(self._names)

    @property
    def present(self) -> list[str]:
        """Return the sites that are connected."""
        with self._lock:
            return sorted(self._sites)

    def wait(self, timeout: float = 600.0) -> None:
        """Wait until all sites have joined; raise ``SiteLostError`` that names the others after so many seconds."""
        with self._joined:
            done = self._joined.wait_for(lambda: self._closed or set(self.present) == set(self._names), timeout)
        if not done or self._closed:
            absent = ", ".join(repr(name) for name in self._names if name not in self.present)
            why = f" (turned away: {'; '.join(self.refused[-3:])})" if self.refused else ""
            raise SiteLostError(f"no connection within {timeout:g} seconds from the site {absent}{why}")

    def ask(self, question: bytes, timeout: float, to: Sequence[str]) -> dict[str, bytes]:
        """Return the answers of these sites by name; raise ``SiteLostError`` if one does not answer in time."""
        with self._lock:
            connections = {name: self._sites.get(name) for name in to}
        for name, connection in connections.items():
            if connection is None:
                raise SiteLostError(f"the site {name!r} is not connected")
            try:
                with self._lock:
                    self._due[connection] = self._due.get(connection, 0) + 1
                send(connection, question)
                self._owed[connection] = self._owed.get(connection, 0) + 1
            except OSError:
                self._lose(name, connection)
                raise SiteLostError(f"the site {name!r} has closed its connection") from None
        found: dict[str, bytes] = {}
        end = time.monotonic() + timeout
        while len(found) < len(connections):
            try:
                name, source, answer, problem = self._answers.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                late = [name for name in connections if name not in found]
                for name in late:
                    self._lose(name, connections[name])
                listed = ", ".join(map(repr, late))
                raise SiteLostError(f"no answer within {timeout:g} seconds from the site {listed}") from None
            if connections.get(name) is not source:  # of another question, or a connection that was given up
                if source in self._owed:
                    self._owed[source] -= 1
                continue
            if problem:
                raise SiteLostError(f"the site {name!r} {problem}")
            self._owed[source] -= 1
            if not self._owed[source]:  # else it answers a question whose asker has given up
                found[name] = answer
        return found

    def _accept(self) -> None:
        """Take connections until the hub closes; each is checked by a thread of its own, for a limited time."""
        while not self._closed:
            try:
                raw, _ = self._socket.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            if not self._turns.acquire(blocking=False):
                raw.close()
                continue
            threading.Thread(target=self._check, args=(raw,), daemon=True).start()

    def _check(self, raw: socket.socket) -> None:
        """Let a site in, or turn it away."""
        connection: socket.socket = raw
        try:
            raw.settimeout(HANDSHAKE)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = own = self._context.wrap_socket(raw, server_side=True)
            name = self._name(own)
            with self._lock:
                if name in self._sites:
                    raise WireError(f"the site {name!r} is connected already")
                own.settimeout(STALLED)
                self._sites[name] = own
            send(own, Message("welcome", {"version": __version__}).encode())
        except (OSError, WireError) as error:
            self.refused[KEPT - 1 :] = [str(error)[:200]]
            if isinstance(error, WireError):
                with suppress(OSError):
                    send(connection, Message("refused", {"rule": "protocol", "reason": str(error)}).encode())
            connection.close()
            return
        finally:
            self._turns.release()
        threading.Thread(target=self._read, args=(name, own), daemon=True).start()
        with self._joined:
            self._joined.notify_all()

    def _name(self, connection: ssl.SSLSocket) -> str:
        """Return the name of a site that may join."""
        first = Message.decode(receive(connection, MOST_HELLO))
        if first.kind != "join" or set(first.fields) != {"name", "version"} or first.arrays:
            raise WireError("the first message of a site must say who joins")
        if first.fields["version"] != __version__:
            raise WireError(f"the hub runs anchortm {__version__}, and the site another version: install the same one")
        name = name_in(connection)
        if first.fields["name"] != name:
            raise WireError("the name of the site is not the common name of its certificate")
        if name not in self._names:
            raise WireError(f"the site {name[:80]!r} is not one of this study")
        return name

    def _read(self, name: str, connection: ssl.SSLSocket) -> None:
        """Pass on the answers of one site, and the end of its connection."""
        while True:
            try:
                answer = receive(connection, patient=True)
                problem = "" if answer else "has closed its connection"
            except (OSError, WireError) as error:
                answer, problem = b"", f"is lost: {error}"
            with self._lock:  # else a site could fill the memory with answers
                if not problem and not self._due.get(connection):
                    answer, problem = b"", "has answered where nothing was asked"
                elif not problem:
                    self._due[connection] -= 1
            self._answers.put((name, connection, answer, problem))
            if problem:
                self._lose(name, connection)
                return

    def _lose(self, name: str, connection: socket.socket | None) -> None:
        """Give a connection up: an answer that comes later must not be taken for one to another question."""
        with self._lock:
            if self._sites.get(name) is connection:
                self._owed.pop(self._sites[name], None)
                self._due.pop(self._sites.pop(name), None)
        if connection is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def close(self) -> None:
        """Close all connections; the sites end."""
        self._closed = True
        with suppress(OSError):
            self._socket.close()
        with self._lock:
            sites = list(self._sites.items())
        for name, connection in sites:
            self._lose(name, connection)
        with self._joined:
            self._joined.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def join_hub(
    site: Site,
    host: str,
    port: int,
    certificate: Certificate,
    *,
    patience: float = 60.0,
    server_name: str | None = None,
) -> int:
    """Connect a site to a hub and answer its questions until the hub closes.

    Parameters
    ----------
    site : Site
        Its name must be the common name of its certificate.
    host, port : str, int
        Where the hub listens.
    certificate : Certificate
        The certificate of the site.
    patience : float
        Seconds to try to reach the hub.
    server_name : str, optional
        The name in the certificate of the hub, if it is not ``host``.

    Returns
    -------
    int
        How many questions were answered.

    Examples
    --------
    >>> import anchortm as atm
    >>> from anchortm.federated import Certificate, Site, join_hub
    >>> site = Site(atm.datasets.load_geyser(), "park")
    >>> join_hub(site, "hub.example.org", 8443, Certificate("park.pem", "park.key", "ca.pem"))  # doctest: +SKIP
    26
    """
    context = certificate.context(server=False)
    connection = _reached(context, host, port, patience, server_name or host)
    answered = 0
    with connection:
        try:
            send(connection, Message("join", {"name": site.name, "version": __version__}).encode())
            welcome = Message.decode(receive(connection))
        except (OSError, WireError) as error:
            raise InputError(f"the hub has turned this site away: {error}") from None
        if welcome.kind != "welcome":
            raise InputError(f"the hub has turned this site away: {str(welcome.fields.get('reason'))[:300]}")
        connection.settimeout(STALLED)
        while True:
            try:
                question = receive(connection, patient=True)
            except (OSError, WireError):
                question = b""
            if not question:
                return answered
            with suppress(OSError):
                send(connection, site.answer(question))
            answered += 1


def _reached(context: ssl.SSLContext, host: str, port: int, patience: float, server_name: str) -> ssl.SSLSocket:
    """Return a connection to the hub; certificates that do not fit end the attempts at once."""
    end = time.monotonic() + patience
    while True:
        try:
            raw = socket.create_connection((host, port), timeout=HANDSHAKE)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return context.wrap_socket(raw, server_hostname=server_name)
        except ssl.SSLError as error:
            raise InputError(f"the connection to {host}:{port} is not safe: {error.reason or error}") from None
        except OSError as error:
            if time.monotonic() >= end:
                raise InputError(f"cannot reach the hub at {host}:{port}: {error.strerror or error}") from None
            time.sleep(min(RETRY, max(0.0, end - time.monotonic())))
