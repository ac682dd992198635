"""Messages: whole or refused."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchortm.federated import WireError, wire
from anchortm.federated.questions import QUESTIONS, check_answer, check_question
from anchortm.federated.wire import HEAD, MARK, Message


def message() -> Message:
    return Message("sums", {"session": "s", "round": 3, "plan": "p"}, {"points": np.arange(6.0).reshape(2, 3)})


def sealed(body: bytes) -> bytes:
    return body + hashlib.sha256(body).digest()


def with_header(header: object, arrays: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return sealed(HEAD.pack(MARK, wire.PROTOCOL, len(text)) + text + arrays)


def test_messages_come_back() -> None:
    made = Message.decode(message().encode())
    assert (made.kind, made.fields) == ("sums", {"session": "s", "round": 3, "plan": "p"})
    np.testing.assert_array_equal(made.arrays["points"], np.arange(6.0).reshape(2, 3))
    masked = Message("counts", {}, {"sums": np.array([[2**64 - 1, 1]], dtype=np.uint64)})
    assert Message.decode(masked.encode()).arrays["sums"].tolist() == [[2**64 - 1, 1]]


@given(place=st.integers(0, len(message().encode()) - 1), bit=st.integers(0, 7))
def test_any_flipped_bit_is_found(place: int, bit: int) -> None:
    data = bytearray(message().encode())
    data[place] ^= 1 << bit
    with pytest.raises(WireError):
        Message.decode(bytes(data))


@given(st.binary(max_size=200))
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        Message.decode(data)


@pytest.mark.parametrize("length", [0, 10, 60, -1])
def test_cut_messages_are_refused(length: int) -> None:
    with pytest.raises(WireError, match="damaged"):
        Message.decode(message().encode()[:length])


def test_versions_of_the_protocol_are_compared() -> None:
    text = b"{}"
    body = HEAD.pack(MARK, wire.PROTOCOL + 1, len(text)) + text
    with pytest.raises(WireError, match=f"version {wire.PROTOCOL + 1} of the protocol"):
        Message.decode(sealed(body))


@pytest.mark.parametrize(
    "data",
    [
        with_header([1]),
        with_header({"kind": "sums", "fields": {}}),
        with_header({"kind": 3, "fields": {}, "arrays": []}),
        with_header({"kind": "sums", "fields": {}, "arrays": [["a", "f8", [2]]]}),
        with_header({"kind": "sums", "fields": {}, "arrays": [["a", "O", [0]]]}),
        with_header({"kind": "sums", "fields": {}, "arrays": [["a", "f8", [-1]]]}),
        with_header({"kind": "sums", "fields": {}, "arrays": [["a", "f8", [2**40, 2**40]]]}),
        with_header({"kind": "sums", "fields": {}, "arrays": [["a", "f8", [0]], ["a", "f8", [0]]]}),
        with_header({"kind": "sums", "fields": {}, "arrays": [["a", "f8", [1, 1, 1, 1]]]}, bytes(8)),
        with_header({"kind": "sums", "fields": {}, "arrays": []}, bytes(8)),
        sealed(HEAD.pack(MARK, wire.PROTOCOL, 2**31) + b"{}"),
        sealed(HEAD.pack(MARK, wire.PROTOCOL, 2) + b"[["),
    ],
)
def test_headers_are_checked(data: bytes) -> None:
    with pytest.raises(WireError, match="damaged"):
        Message.decode(data)


def test_long_messages_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_BYTES", 1000)
    with pytest.raises(WireError, match="longer"):
        Message("x", {}, {"a": np.zeros(200)}).encode()
    with pytest.raises(WireError, match="longer"):
        Message.decode(bytes(2000))


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "rows"},
        {"fields": {"session": "s", "round": 3}},
        {"fields": {"session": "s", "round": 3, "plan": "p", "where": "x > 3"}},
        {"fields": {"session": "s", "round": -3, "plan": "p"}},
        {"fields": {"session": "s", "round": True, "plan": "p"}},
        {"arrays": {}},
        {"arrays": {"points": np.zeros(3), "mean": np.zeros(3), "scale": np.ones(3)}},
        {"arrays": {"points": np.full((1, 3), np.nan), "mean": np.zeros(3), "scale": np.ones(3)}},
        {"arrays": {"points": np.zeros((0, 3)), "mean": np.zeros(3), "scale": np.ones(3)}},
        {"arrays": {"points": np.zeros((1000, 3)), "mean": np.zeros(3), "scale": np.ones(3)}},
    ],
)
def test_questions_are_checked_field_by_field(change: dict[str, object]) -> None:
    good = {
        "kind": "sums",
        "fields": {"session": "s", "round": 3, "plan": "p"},
        "arrays": {"points": np.zeros((1, 3)), "mean": np.zeros(3), "scale": np.ones(3)},
    }
    check_question(Message(**good))  # type: ignore[arg-type]
    with pytest.raises(WireError):
        check_question(Message(**{**good, **change}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "masked"),
    [
        (Message("rows", {}, {"sums": np.zeros(3)}), False),
        (Message("gram", {"more": 1}, {"sums": np.zeros(3)}), False),
        (Message("gram", {}, {"sums": np.zeros(4)}), False),
        (Message("gram", {}, {"rows": np.zeros(3)}), False),
        (Message("gram", {}, {}), False),
        (Message("gram", {}, {"sums": np.array([np.nan, 0.0, 0.0])}), False),
        (Message("gram", {}, {"sums": np.zeros(3)}), True),
        (Message("gram", {}, {"sums": np.zeros((3, 2), dtype=np.uint64)}), False),
    ],
)
def test_answers_are_checked_field_by_field(answer: Message, masked: bool) -> None:
    check_answer(Message("gram", {}, {"sums": np.zeros(3)}), "gram", 3, False)
    with pytest.raises(WireError):
        check_answer(answer, "gram", 3, masked)


def test_the_list_of_questions_is_short() -> None:
    assert set(QUESTIONS) == {
        *("hello", "open", "counts", "moments", "gram", "baseline", "sums", "influence", "steep", "against", "score"),
        *("anchors", "shared", "shared_influence", "shared_steep", "need", "calibration", "fitted", "pearson"),
    }
