"""Masks: exact in the total, and random for each site alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchortm.exceptions import InputError
from anchortm.federated import Keys
from anchortm.federated.masks import LARGEST, Masks, from_fixed, hkdf, to_fixed, total_of


def parties(n: int) -> tuple[dict[str, Keys], dict[str, str]]:
    keys = {f"s{k}": Keys.generate() for k in range(n)}
    return keys, {name: own.public for name, own in keys.items()}


@given(st.lists(st.floats(-LARGEST, LARGEST, allow_subnormal=False), min_size=1, max_size=20))
def test_numbers_come_back(values: list[float]) -> None:
    given_ = np.array(values)
    np.testing.assert_allclose(from_fixed(to_fixed(given_)), given_, rtol=2.0**-52, atol=2.0**-80)


@pytest.mark.parametrize("n", [3, 8])
def test_totals_are_exact(n: int) -> None:
    rng = np.random.default_rng(n)
    keys, members = parties(n)
    values = rng.normal(size=(n, 4000)) * 10.0 ** rng.uniform(-8, 9, (1, 4000))
    parts = [Masks.of(keys[f"s{k}"], f"s{k}", members, "session").hide(values[k], 7, b"") for k in range(n)]
    exact = [sum(map(int, np.round(column * 2.0**60).tolist())) / 2.0**60 for column in values.T]
    np.testing.assert_allclose(total_of(parts), exact, rtol=1e-15, atol=n * 2.0**-60)


def test_one_part_says_nothing_and_a_missing_one_leaves_noise() -> None:
    keys, members = parties(3)
    masks = [Masks.of(keys[name], name, members, "session") for name in members]
    values = np.ones(2000)
    parts = [mask.hide(values, 1, b"") for mask in masks]
    assert np.abs(from_fixed(parts[0])).min() > 1e3
    bits = np.unpackbits(parts[0].view(np.uint8))
    assert abs(bits.mean() - 0.5) < 0.01
    assert np.abs(total_of(parts[:2])).min() > 1e3
    again = masks[0].hide(values, 2, b"")
    assert (again != parts[0]).any(axis=1).all()  # another round, another mask


def test_other_sessions_have_other_masks() -> None:
    keys, members = parties(3)
    one, other = (Masks.of(keys["s0"], "s0", members, session).hide(np.ones(5), 1, b"") for session in ("a", "b"))
    assert (one != other).any(axis=1).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, 2.0 * LARGEST])
def test_what_cannot_be_masked_is_refused(value: float) -> None:
    with pytest.raises(InputError, match="cannot be masked"):
        to_fixed(np.array([1.0, value]))


def test_keys_must_be_those_of_the_study() -> None:
    keys, members = parties(3)
    with pytest.raises(InputError, match="another public key"):
        Masks.of(Keys.generate(), "s0", members, "session")
    with pytest.raises(InputError, match="no public key of its own for the site s2"):
        Masks.of(keys["s0"], "s0", {**members, "s2": ""}, "session")
    with pytest.raises(InputError, match="no public key of its own"):
        Masks.of(keys["s0"], "s0", {**members, "s2": keys["s0"].public}, "session")
    with pytest.raises(InputError, match="at least 3 sites"):
        Masks.of(keys["s0"], "s0", {"s0": members["s0"], "s1": members["s1"]}, "session")
    with pytest.raises(InputError, match="invalid"):
        keys["s0"].shared("00" * 32)
    with pytest.raises(InputError, match="32 bytes"):
        Keys(b"short")
    assert keys["s0"].secret.hex() not in repr(keys["s0"])


def test_hkdf_is_that_of_the_standard() -> None:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    secret, info = bytes(range(32)), b"anchortm masks|x"
    assert hkdf(secret, info) == HKDF(hashes.SHA256(), 32, None, info).derive(secret)
