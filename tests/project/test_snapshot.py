"""Numbers and public names are those that were recorded, in tests/snapshot, before the code was rebuilt."""

import importlib
import json
import math
import runpy
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from paths import ROOT, TESTS

FITS = json.loads((TESTS / "snapshot" / "fits.json").read_text())["cases"]
API = json.loads((TESTS / "snapshot" / "api.json").read_text())
fits = runpy.run_path(str(ROOT / "scripts" / "snapshot_fits.py"))
api = runpy.run_path(str(ROOT / "scripts" / "snapshot_api.py"))

TOLERANCE = 1e-12  # relative to the value, or to 1 where that is larger

NUMBERS_CHANGED = """
These fits gave other numbers before. If that is a mistake, repair the code. If they change on purpose, list it in the
changelog under Changed, write the record again with `python scripts/snapshot_fits.py`, and look at its difference."""
CONTRACT_CHANGED = """
These public names or signatures have changed, and with them what users rely on. That is a decision, not a side effect.
If you mean it: follow the rule on deprecations in CONTRIBUTING.md, add an entry to the changelog, write the record
again with `python scripts/snapshot_api.py`, and look at its difference. A name that should not be public begins with an
underscore and is not in `__all__`."""
FORMER = [
    "averaged.AveragedDistribution",
    "bands.ConfidenceBand",
    "distribution.PredictedDistribution",
    "effects.MarginalEffects",
    "evaluation.LeaveOneEnvironmentOut",
    "means.FamilyDistribution",
    "nets.ElasticNetPath",
    "path.AnchorPath",
    "response.Kind",
    "proportionality.ProportionalityTest",
    "response.as_response",
    "search.InvarianceRule",
    "steps.StepDistribution",
    "summary.LikelihoodRatio",
    "summary.Summary",
]  # addresses that the pages named before the modules were sorted into packages


def differences(name: str, old: Any, new: Any) -> Iterator[str]:
    """Yield what differs, by its place in the record."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            if key not in old or key not in new:
                yield f"{name} / {key}: {'added' if key in new else 'gone'}"
            else:
                yield from differences(f"{name} / {key}", old[key], new[key])
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from differences(f"{name}[{i}]", before, after)
    elif type(old) is float and type(new) is float:
        if not abs(new - old) <= TOLERANCE * max(1.0, abs(old)):
            yield f"{name}: {old!r} is now {new!r}"
    elif type(old) is not type(new) or old != new:
        yield f"{name}: {old!r} is now {new!r}"


@pytest.mark.parametrize("group", fits["GROUPS"], ids=lambda group: group.__name__)
def test_fits_are_those_recorded(group: Any) -> None:
    found = {name: fits["run_case"](run) for name, run in group()}
    assert set(found) <= set(FITS)
    changed = [line for name, record in found.items() for line in differences(name, FITS[name], record)]
    assert not changed, "\n".join([*changed[:20], f"{len(changed)} values in all.", NUMBERS_CHANGED])


def test_every_recorded_fit_is_made() -> None:
    assert set(fits["cases"]()) == set(FITS)
    assert len(FITS) >= 200


def test_recorded_fits_converged() -> None:
    assert all(record.get("converged", True) for record in FITS.values())


def test_the_public_names_are_those_recorded() -> None:
    changed = list(differences("", API, json.loads(json.dumps(api["record"]()))))
    assert not changed, "\n".join([*(line.removeprefix(" / ") for line in changed), CONTRACT_CHANGED])


@pytest.mark.filterwarnings("ignore:anchortm:DeprecationWarning")
@pytest.mark.parametrize("address", FORMER)
def test_former_addresses_lead_to_what_is_documented(address: str) -> None:
    module, name = address.split(".")
    (documented,) = (known for known in API if known.endswith(f".{name}"))
    now = getattr(importlib.import_module(documented.rpartition(".")[0]), name)
    assert getattr(importlib.import_module(f"anchortm.{module}"), name) is now
    del sys.modules[f"anchortm.{module}"]  # the next import warns again


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ({"a": 1.0}, {"a": 1.0 + 1e-13}, 0),
        ({"a": 1.0}, {"a": 1.0 + 1e-11}, 1),
        ({"a": 1e6}, {"a": 1e6 + 1e-7}, 0),
        ({"a": 1.0}, {"a": math.nan}, 1),
        ({"a": "inf"}, {"a": 5.0}, 1),
        ({"a": True}, {"a": 1.0}, 1),
        ({"a": [1.0]}, {"a": [1.0, 2.0]}, 1),
        ({"a": 1.0}, {"b": 1.0}, 2),
        ({"f": "(x, *, y=1)"}, {"f": "(x, *, y=2)"}, 1),
    ],
)
def test_the_comparison_sees_differences(old: Any, new: Any, count: int) -> None:
    assert len(list(differences("case", old, new))) == count
