"""The list of data sets of the survey."""

from __future__ import annotations

from collections import Counter

import pytest

from anchortm.exceptions import InputError
from anchortm.survey.catalogue import KINDS, DataSet, catalogue, named


def test_the_list_is_long_and_mixed() -> None:
    found = catalogue()
    kinds = Counter(one.kind for one in found)
    assert len(found) >= 40
    assert set(kinds) == set(KINDS)
    assert min(kinds.values()) >= 5
    assert sum(one.seen for one in found) <= 5


def test_names_and_tables_occur_once() -> None:
    found = catalogue()
    for values in ([one.name for one in found], [one.table for one in found]):
        assert max(Counter(values).values()) == 1


def test_no_data_set_uses_its_outcome_or_its_environment_as_a_covariate() -> None:
    for one in catalogue():
        used = {one.outcome, one.environment, *one.event}
        assert not used & set(one.covariates), one.name
        assert len(one.covariates) <= 8


def test_a_digest_changes_with_every_field() -> None:
    one = catalogue()[0]
    assert DataSet(**vars(one)).digest == one.digest
    assert DataSet(**vars(one) | {"covariates": one.covariates[:-1]}).digest != one.digest


def test_unknown_names_are_refused() -> None:
    assert [one.name for one in named(["Radon in homes"])] == ["Radon in homes"]
    with pytest.raises(InputError, match="the survey has no data set 'radon'"):
        named(["radon"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "colour"}, "kind must be one of number"),
        ({"kind": "time"}, "a time, and nothing else, has an event"),
        ({"kind": "binary"}, "ordinal and binary outcomes, and no others, have classes"),
    ],
)
def test_contradictions_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DataSet(**vars(named(["Radon in homes"])[0]) | change)
