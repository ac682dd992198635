"""Masks that cancel in sums over sites, and the keys that make them.

Each pair of sites shares a key that nobody else knows (X25519, then HKDF over the session). For each round the key
makes a stream of 128-bit numbers (SHAKE-256) for one question; one site of the pair adds it and the other subtracts
it. What a site sends looks random, and the sum over all sites is exact: numbers are integers modulo 2^128, in units of
2^-80.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from anchortm.exceptions import InputError, UnavailableError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

__all__ = ["FEWEST_SITES", "LARGEST", "Keys", "Masks", "from_fixed", "noise", "to_fixed", "total_of"]

Array = NDArray[np.float64]
Fixed = NDArray[np.uint64]

FEWEST_SITES = 3  # of two sites each can subtract its own part from the total
SCALE = 80  # a unit is 2^-80
LARGEST = 2.0**40  # of what one site sends: 64 such parts stay below 2^47
WORD = 2.0**64
INSTALL = "masks need the package cryptography: pip install 'anchortm[federated]', or set masks=False"


def to_fixed(values: Array) -> Fixed:
    """Return numbers as 128-bit integers, two words each, the high one first."""
    if not (np.isfinite(values).all() and (np.abs(values) <= LARGEST).all()):
        raise InputError("numbers that are not finite, or larger than 2^40, cannot be masked")
    scaled = np.abs(values) * 2.0 ** (SCALE - 64)
    high = np.floor(scaled)
    low = np.floor((scaled - high) * WORD)  # exact but for what is below a unit
    found = np.stack([high.astype(np.uint64), low.astype(np.uint64)], axis=-1)
    return np.where((values < 0.0)[..., None], negative(found), found)


def from_fixed(numbers: Fixed) -> Array:
    """Return 128-bit integers as numbers."""
    below = numbers[..., 0] >= np.uint64(2**63)
    size = np.where(below[..., None], negative(numbers), numbers).astype(np.float64)
    found = size[..., 0] * 2.0 ** (64 - SCALE) + size[..., 1] * 2.0**-SCALE
    return np.asarray(np.where(below, -found, found))


def add(a: Fixed, b: Fixed) -> Fixed:
    """Return sums modulo 2^128."""
    low = a[..., 1] + b[..., 1]
    return np.stack([a[..., 0] + b[..., 0] + (low < a[..., 1]), low], axis=-1)


def negative(a: Fixed) -> Fixed:
    """Return 2^128 minus each number."""
    low = ~a[..., 1] + np.uint64(1)
    return np.stack([~a[..., 0] + (low == 0), low], axis=-1)


def noise(shape: tuple[int, ...]) -> Fixed:
    """Return random numbers of 128 bits, in place of numbers that a site withholds: no total can be read then."""
    import secrets

    size = math.prod(shape)
    return np.frombuffer(secrets.token_bytes(16 * size), "<u8").reshape(*shape, 2)


def total_of(parts: Sequence[Fixed]) -> Array:
    """Return the sum of masked parts, in which the masks cancel."""
    total = parts[0]
    for part in parts[1:]:
        total = add(total, part)
    return from_fixed(total)


def hkdf(secret: bytes, info: bytes) -> bytes:
    """Return 32 bytes by HKDF with SHA-256 (RFC 5869) and an empty salt."""
    extracted = hmac.new(bytes(32), secret, hashlib.sha256).digest()
    return hmac.new(extracted, info + b"\x01", hashlib.sha256).digest()


class Keys:
    """The private key of a site, and its public key, which goes into the study file.

    Parameters
    ----------
    secret : bytes
        The 32 bytes of a private key for X25519.

    Examples
    --------
    >>> from anchortm.federated import Keys
    >>> mine, theirs = Keys.generate(), Keys.generate()
    >>> len(mine.public)
    64
    >>> mine.shared(theirs.public) == theirs.shared(mine.public)
    True
    """

    def __init__(self, secret: bytes) -> None:
        if not isinstance(secret, bytes) or len(secret) != 32:
            raise InputError("a private key has 32 bytes: make one with anchortm site keys")
        self._secret = secret

    def __repr__(self) -> str:
        return f"Keys(public={self.public!r})"

    @classmethod
    def generate(cls) -> Keys:
        """Return new keys from the random numbers of the operating system.

        Examples
        --------
        >>> from anchortm.federated import Keys
        >>> Keys.generate().public != Keys.generate().public
        True
        """
        import secrets

        return cls(secrets.token_bytes(32))

    @property
    def secret(self) -> bytes:
        """Return the private key, which stays at the site."""
        return self._secret

    @cached_property
    def _private(self) -> X25519PrivateKey:
        try:
            from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
        except ImportError:
            raise UnavailableError(INSTALL) from None
        return X25519PrivateKey.from_private_bytes(self._secret)

    @cached_property
    def public(self) -> str:
        """Return the public key in hexadecimal digits."""
        return str(self._private.public_key().public_bytes_raw().hex())

    def shared(self, public: str) -> bytes:
        """Return the secret that these keys share with the owner of another public key.

        Examples
        --------
        >>> from anchortm.federated import Keys
        >>> mine, theirs = Keys.generate(), Keys.generate()
        >>> mine.shared(theirs.public) == theirs.shared(mine.public)
        True
        """
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        private = self._private
        try:
            return bytes(private.exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(public))))
        except ValueError:
            raise InputError("a public key in the study is invalid: make it with anchortm site keys") from None


@dataclass(frozen=True, eq=False)
class Masks:
    """The masks of one site in one session."""

    pairs: tuple[tuple[bytes, bool], ...]  # the key shared with each other site, and whether this site adds

    @classmethod
    def of(cls, keys: Keys, name: str, members: Mapping[str, str], session: str) -> Masks:
        """Return the masks of a site among these members, by their pinned public keys."""
        if len(members) < FEWEST_SITES:
            raise InputError(f"masks need at least {FEWEST_SITES} sites, and there are {len(members)}")
        if members.get(name) != keys.public:
            raise InputError("the study has another public key for this site than its private key belongs to")
        pairs = []
        for other, public in members.items():
            if other == name:
                continue
            if not public or public == keys.public:
                raise InputError(f"the study has no public key of its own for the site {other}")
            info = "|".join(["anchortm masks", session, *sorted([name, other])])
            pairs.append((hkdf(keys.shared(public), info.encode()), name < other))
        return cls(tuple(pairs))

    def hide(self, values: Array, round_: int, question: bytes) -> Fixed:
        """Return numbers behind the masks of a round; no two questions may have the same round.

        The masks belong to the question, byte by byte: they do not cancel in the answers to different questions.
        Otherwise a coordinator could ask one site about other parameters than the rest, and subtract.
        """
        hidden = to_fixed(values)
        about = round_.to_bytes(8, "big") + hashlib.sha256(question).digest()
        for key, adds in self.pairs:
            stream = hashlib.shake_256(key + about).digest(16 * values.size)
            mask = np.frombuffer(stream, "<u8").reshape(values.size, 2)
            hidden = add(hidden, mask if adds else negative(mask))
        return hidden
