"""Sites that dial out over TLS: the same fit, and who is turned away."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority
from federated_cases import check_equal, sites_of, table

import anchortm as atm
from anchortm import __version__
from anchortm.exceptions import InputError
from anchortm.federated import Certificate, Coordinator, Hub, Site, SiteLostError, WireError, join_hub
from anchortm.federated.hub import receive, send
from anchortm.federated.wire import Message

DATA = table(900, 3)
STUDY = {"formula": "Surv(time, event) ~ x + z | site", "support": [0.5, 4.0]}
MODEL = atm.ContinuousLogit(order=6)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def hub(authority: Authority) -> Iterator[Hub]:
    with Hub(["s0", "s1", "s2"], authority.sign("hub")) as made:
        yield made


def joining(hub: Hub, site: Site, certificate: Certificate, patience: float = 5.0) -> list[Any]:
    """Join in a thread; return the list that gets the number of answers, or the error."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(join_hub(site, *hub.address, certificate, patience=patience))
        except InputError as error:
            found.append(error)

    threading.Thread(target=run, daemon=True).start()
    return found


def after(found: list[Any], seconds: float = 10.0) -> Any:
    end = time.monotonic() + seconds
    while not found and time.monotonic() < end:
        time.sleep(0.01)
    return found[0] if found else None


@pytest.mark.usefixtures("authority")
def test_the_fit_over_tls_is_that_of_all_rows(hub: Hub, authority: Authority) -> None:
    from anchortm.federated.transport import prepared_sites

    sites = prepared_sites(sites_of(DATA))
    found = [joining(hub, site, authority.sign(name)) for name, site in sites.items()]
    hub.wait(20.0)
    assert hub.present == ["s0", "s1", "s2"]
    asked = Coordinator(hub, STUDY)
    model = asked.fit(MODEL, xi=1.0)
    check_equal(model, atm.ContinuousLogit.from_formula(STUDY["formula"], DATA, order=6, support=(0.5, 4.0), xi=1.0))
    hub.close()
    assert [after(one) for one in found] == [asked.rounds] * 3


def test_missing_foreign_and_expired_certificates(hub: Hub, authority: Authority, tmp_path: Path) -> None:
    foreign, site = Authority(tmp_path / "foreign", "somebody else"), Site(DATA, "s0")
    mixed = foreign.sign("s0")
    trusting = Certificate(mixed.certificate, mixed.key, str(authority.ca))  # trusts the hub, is not trusted
    for certificate in (trusting, authority.sign("s0", days=-1.0)):
        problem = after(joining(hub, site, certificate))
        assert isinstance(problem, InputError)
        assert "turned this site away" in str(problem) or "not safe" in str(problem)
    problem = after(joining(hub, site, mixed))  # does not trust the hub
    assert "is not safe" in str(problem)
    with pytest.raises(InputError, match="cannot read the certificates"):
        Certificate("nowhere.pem", "nowhere.key", str(authority.ca)).context(server=False)
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # without a certificate
    bare.load_verify_locations(str(authority.ca))
    assert turned_away(hub, lambda raw: bare.wrap_socket(raw, server_hostname="127.0.0.1"))
    assert turned_away(hub, lambda raw: raw)  # without TLS
    assert hub.present == []
    with pytest.raises(SiteLostError, match=r"no connection within 0.2 seconds from the site 's0', 's1', 's2'"):
        hub.wait(0.2)


def turned_away(hub: Hub, wrap: Callable[[socket.socket], socket.socket]) -> bool:
    """Return whether a connection ends without an answer."""
    with socket.create_connection(hub.address, timeout=5.0) as raw:
        try:
            with wrap(raw) as connection:
                send(connection, Message("join", {"name": "s0", "version": __version__}).encode())
                return receive(connection) == b""
        except (OSError, WireError):  # WireError: an alert of TLS, read as a frame
            return True


def test_unknown_doubled_and_misnamed_sites(hub: Hub, authority: Authority) -> None:
    stranger = after(joining(hub, Site(DATA, "s9"), authority.sign("s9")))
    assert "'s9' is not one of this study" in str(stranger)
    liar = after(joining(hub, Site(DATA, "s1"), authority.sign("s9")))
    assert "not the common name of its certificate" in str(liar)
    first = joining(hub, Site(DATA, "s0"), authority.sign("s0"))
    while "s0" not in hub.present:
        time.sleep(0.01)
    twice = after(joining(hub, Site(DATA, "s0"), authority.sign("s0")))
    assert "is connected already" in str(twice)
    assert not first


def dialled(hub: Hub, certificate: Certificate, hello: bytes) -> Any:
    """Return a connection that has said something by hand."""
    raw = socket.create_connection(hub.address, timeout=5.0)
    connection = certificate.context(server=False).wrap_socket(raw, server_hostname="127.0.0.1")
    send(connection, hello)
    return connection


def test_other_versions_and_nonsense_are_turned_away(hub: Hub, authority: Authority) -> None:
    certificate = authority.sign("s0")
    for hello, match in (
        (Message("join", {"name": "s0", "version": "0.0"}).encode(), "another version"),
        (Message("join", {"name": "s0"}).encode(), "who joins"),
        (b"nonsense", "damaged"),
    ):
        with dialled(hub, certificate, hello) as connection:
            assert match in Message.decode(receive(connection)).fields["reason"]
    with dialled(hub, certificate, b"") as connection:
        connection.sendall((2**32 - 1).to_bytes(4, "big"))
        assert "damaged" in Message.decode(receive(connection)).fields["reason"]


@pytest.mark.parametrize("how", ["leaves", "nonsense", "flipped", "late", "too long"])
def test_a_site_that_fails_is_named(hub: Hub, authority: Authority, how: str) -> None:
    for name, site in zip(("s0", "s1"), sites_of(DATA), strict=False):
        joining(hub, site, authority.sign(name))
    hello = Message("join", {"name": "s2", "version": __version__}).encode()
    site = sites_of(DATA)[2]
    with dialled(hub, authority.sign("s2"), hello) as connection:
        assert Message.decode(receive(connection)).kind == "welcome"
        hub.wait(10.0)

        def answer() -> None:
            with suppress(Exception):  # the connection may be closed, and its number used again, while this reads
                answer_badly()

        def answer_badly() -> None:
            send(connection, site.answer(receive(connection)))
            answered = bytearray(site.answer(receive(connection)))
            if how == "leaves":
                connection.shutdown(socket.SHUT_RDWR)
            elif how == "nonsense":
                send(connection, b"something else, which is long enough to be a message of some kind or other")
            elif how == "flipped":
                answered[len(answered) // 2] ^= 4
                send(connection, bytes(answered))
            elif how == "too long":
                connection.sendall((2**31).to_bytes(4, "big"))

        threading.Thread(target=answer, daemon=True).start()
        start = time.monotonic()
        with pytest.raises((SiteLostError, InputError), match="the site 's2'"):
            Coordinator(hub, STUDY, masks=False, timeout=1.0).fit(MODEL, xi=1.0)
        assert time.monotonic() - start < 2.5
    if how in ("leaves", "late", "too long"):
        end = time.monotonic() + 5.0
        while "s2" in hub.present and time.monotonic() < end:
            time.sleep(0.01)
        with pytest.raises(SiteLostError, match="'s2' is not connected"):
            Coordinator(hub, STUDY, masks=False).fit(MODEL, xi=1.0)


@pytest.mark.bug("federated", "a site could fill the memory of the hub with answers that nobody had asked for")
def test_answers_without_a_question_end_the_connection(hub: Hub, authority: Authority) -> None:
    hello = Message("join", {"name": "s0", "version": __version__}).encode()
    with dialled(hub, authority.sign("s0"), hello) as connection:
        assert Message.decode(receive(connection)).kind == "welcome"
        with suppress(OSError):
            for _ in range(200):
                send(connection, bytes(2**20))
    assert hub._answers.qsize() <= 1
    end = time.monotonic() + 5.0
    while hub.present and time.monotonic() < end:
        time.sleep(0.01)
    assert hub.present == []


@pytest.mark.bug("federated", "a site that took no questions held the coordinator for ever")
def test_a_site_that_takes_no_questions_is_lost(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anchortm.federated.hub.STALLED", 0.5)
    hello = Message("join", {"name": "s0", "version": __version__}).encode()
    with Hub(["s0"], authority.sign("hub")) as hub, dialled(hub, authority.sign("s0"), hello) as connection:
        assert Message.decode(receive(connection)).kind == "welcome"
        hub.wait(10.0)
        time.sleep(0.7)  # waiting for an answer has no such limit
        assert hub.present == ["s0"]
        start = time.monotonic()
        with pytest.raises(SiteLostError, match="'s0'"):
            hub.ask(bytes(40 * 2**20), 5.0, ["s0"])
        assert time.monotonic() - start < 3.0


@pytest.mark.bug("federated", "who had not shown a name yet could send 64 MB")
def test_the_first_message_is_short(hub: Hub, authority: Authority) -> None:
    with dialled(hub, authority.sign("s0"), bytes(20_000)) as connection:
        assert "longer than allowed" in Message.decode(receive(connection)).fields["reason"]


def test_a_site_can_join_again_and_the_fit_starts_anew(hub: Hub, authority: Authority) -> None:
    sites = {site.name: site for site in sites_of(DATA)}
    for name in ("s0", "s1"):
        joining(hub, sites[name], authority.sign(name))
    hello = Message("join", {"name": "s2", "version": __version__}).encode()
    with dialled(hub, authority.sign("s2"), hello) as connection:
        receive(connection)
        hub.wait(10.0)
    while "s2" in hub.present:
        time.sleep(0.01)
    joining(hub, sites["s2"], authority.sign("s2"))
    hub.wait(10.0)
    assert Coordinator(hub, STUDY, masks=False).fit(MODEL, xi=1.0).n_rows_ == 900


def test_a_hub_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    certificate = Certificate("a", "b", "c")
    with pytest.raises(InputError, match="cannot read the certificates"):
        join_hub(Site(DATA, "s0"), "127.0.0.1", port, certificate, patience=0.1)


def test_nobody_listens(authority: Authority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    start = time.monotonic()
    with pytest.raises(InputError, match="cannot reach the hub"):
        join_hub(Site(DATA, "s0"), "127.0.0.1", port, authority.sign("s0"), patience=0.6)
    assert 0.5 < time.monotonic() - start < 3.0
    with pytest.raises(InputError, match="names must be those of different sites"):
        Hub(["a", "a"], authority.sign("hub"))
