"""The worlds of hospital 13: their truth is the truth, and the twelve hospitals do not know what the thirteenth is."""

import numpy as np
import pandas as pd
import pytest

from anchortm.reproduce.hospital_13 import SHIFTS, Hospital, true_survival, world


@pytest.mark.parametrize("shift", SHIFTS)
def test_the_twelve_are_the_same_whatever_the_thirteenth_is(shift: str) -> None:
    own, other = world(shift, 3), world("nothing", 3)
    pd.testing.assert_frame_equal(own.known, other.known)
    assert own.known.hospital.nunique() == 12
    assert set(own.new.hospital) == {"hospital 13"}
    assert own.new.equals(other.new) == (shift == "nothing")


def test_the_shift_is_the_one_that_is_named() -> None:
    like = world("nothing", 5).hospital
    assert world("laboratory", 5).hospital == like._replace(level=3.0)
    assert world("care", 5).hospital == like._replace(care=pytest.approx(-0.6))
    assert world("frailty", 5).hospital == like._replace(frailty=2.0)


def test_true_survival_is_that_of_patients_with_the_same_marker_and_age() -> None:
    rng = np.random.default_rng(1)
    hospital, n = Hospital(level=0.5, care=-0.2, frailty=0.7), 4_000_000
    frailty = hospital.frailty + rng.normal(size=n)
    frailty = frailty[np.abs(hospital.level + frailty + 0.5 * rng.normal(size=n) - 2.0) < 0.01]  # the marker reads 2
    log_time = np.log(24.0) - 0.2 - 0.15 * 2.0 - 0.5 * frailty - 0.1 * (75.0 - 65.0) / 10.0
    time = np.exp(log_time) * rng.exponential(size=frailty.size) ** 0.25
    months = np.array([6.0, 12.0, 24.0])
    sf, density = true_survival(hospital, pd.DataFrame({"marker": [2.0], "age": [75.0]}), months)
    simulated = (time[:, None] > months).mean(axis=0)
    assert sf[0] == pytest.approx(simulated, abs=4.0 * 0.5 / np.sqrt(time.size))
    step = 1e-4
    above, below = (
        true_survival(hospital, pd.DataFrame({"marker": [2.0], "age": [75.0]}), months + k)[0] for k in (step, -step)
    )
    assert density[0] == pytest.approx((below - above)[0] / (2.0 * step), rel=1e-6)
