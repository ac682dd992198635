"""Messages between a coordinator and its sites: a header of plain values, arrays of numbers, and a checksum.

A message is bytes: a mark, the version of the protocol, the size of the header, the header as JSON, the arrays, and a
SHA-256 digest of all of it. The digest finds damage; the connection (TLS) guards against people. Nothing in a message
is executed, and every size is checked before anything is read.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.exceptions import InputError

__all__ = ["MAX_BYTES", "PROTOCOL", "Message", "WireError", "digest_of"]

PROTOCOL = 1
MARK = b"ATMF"
HEAD = struct.Struct(">4sHI")  # mark, version, bytes of the header
CHECKSUM = 32
MAX_HEADER, MAX_BYTES = 4 * 2**20, 64 * 2**20
MAX_ARRAYS = 64
TYPES = {"f8": np.dtype("<f8"), "u8": np.dtype("<u8")}


class WireError(InputError):
    """Raised if a message is damaged, too long, of another version, or has unknown or missing fields.

    Examples
    --------
    >>> from anchortm.federated import WireError
    >>> from anchortm.federated.wire import Message
    >>> try:
    ...     Message.decode(b"something else")
    ... except WireError as error:
    ...     print(error)
    the message is damaged: it has 14 bytes, fewer than an empty one
    """


def digest_of(value: Any) -> str:
    """Return the SHA-256 digest of plain values, whatever the order of their keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class Message:
    """One message: its kind, its fields, and its arrays by name."""

    kind: str
    fields: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Return the message as bytes."""
        parts, listed = [], []
        for name, values in self.arrays.items():
            kind = "u8" if values.dtype.kind == "u" else "f8"
            made = np.ascontiguousarray(values, dtype=TYPES[kind])
            parts.append(made.tobytes())
            listed.append([name, kind, list(made.shape)])
        header = {"kind": self.kind, "fields": self.fields, "arrays": listed}
        text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
        body = b"".join([HEAD.pack(MARK, PROTOCOL, len(text)), text, *parts])
        if len(body) > MAX_BYTES:
            raise WireError(f"a message of {len(body)} bytes is longer than the {MAX_BYTES} that are allowed")
        return body + hashlib.sha256(body).digest()

    @classmethod
    def decode(cls, data: bytes) -> Message:
        """Return the message in bytes; all sizes and the checksum are verified first."""
        if len(data) < HEAD.size + CHECKSUM:
            raise WireError(f"the message is damaged: it has {len(data)} bytes, fewer than an empty one")
        if len(data) > MAX_BYTES + CHECKSUM:
            raise WireError(f"a message of {len(data)} bytes is longer than the {MAX_BYTES} that are allowed")
        mark, version, size = HEAD.unpack_from(data)
        if mark != MARK:
            raise WireError("the message does not come from anchortm: it begins with other bytes")
        if version != PROTOCOL:
            raise WireError(
                f"the message has version {version} of the protocol, and this is version {PROTOCOL}: install the same "
                "version of anchortm at all sites"
            )
        body, checksum = data[:-CHECKSUM], data[-CHECKSUM:]
        if hashlib.sha256(body).digest() != checksum:
            raise WireError("the message is damaged: its checksum does not match")
        if size > min(MAX_HEADER, len(body) - HEAD.size):
            raise WireError("the message is damaged: its header is longer than the message or than allowed")
        header = _header(body[HEAD.size : HEAD.size + size])
        return cls(header["kind"], header["fields"], _arrays(header["arrays"], body[HEAD.size + size :]))


def _header(text: bytes) -> dict[str, Any]:
    """Return the checked header."""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise WireError("the message is damaged: its header is not JSON") from None
    fine = (
        isinstance(header, dict)
        and set(header) == {"kind", "fields", "arrays"}
        and isinstance(header["kind"], str)
        and isinstance(header["fields"], dict)
        and isinstance(header["arrays"], list)
        and len(header["arrays"]) <= MAX_ARRAYS
    )
    if not fine:
        raise WireError("the message is damaged: its header has unknown or missing parts")
    return dict(header)


def _arrays(listed: list[Any], data: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays; their sizes must add up to the bytes that are there."""
    found: dict[str, NDArray[Any]] = {}
    at = 0
    for entry in listed:
        known = isinstance(entry, list) and len(entry) == 3
        name, kind, shape = entry if known else ("", "", [])
        if not (isinstance(name, str) and name not in found and kind in TYPES and _is_shape(shape)):
            raise WireError("the message is damaged: an array is not described as it should be")
        size = 8
        for length in shape:
            size *= length
        if size > len(data) - at:
            raise WireError("the message is damaged: an array is longer than the message")
        found[name] = np.frombuffer(data, TYPES[kind], size // 8, at).reshape(shape)
        at += size
    if at != len(data):
        raise WireError("the message is damaged: there are bytes after the last array")
    return found


def _is_shape(shape: Any) -> bool:
    """Return whether a value is the shape of an array of up to three dimensions."""
    return (
        isinstance(shape, list)
        and len(shape) <= 3
        and all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= MAX_BYTES for n in shape)
    )
