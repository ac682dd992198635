"""Dask: the same fit whatever the partitions and the scheduler, also when a worker dies in the middle."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import dask
import dask.dataframe as dd
import joblib
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from simulated import same_fit, table

import anchortm as atm
from anchortm.backends.dask import DaskSource

FORMULA = "Surv(time, event) ~ x0 + x1 + x2 + group | site"
OPTIONS = {"xi": 5.0, "tol": 1e-10}


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return table(4000, seed=1)


@pytest.fixture(scope="module")
def memory(rows: pd.DataFrame) -> Any:
    return atm.ContinuousLogit.from_formula(FORMULA, rows, **OPTIONS)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with (
        dask.config.set({"distributed.worker.daemon": False}),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", host="127.0.0.1") as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("partitions", [1, 3, 13])
def test_threads(partitions: int, rows: pd.DataFrame, memory: Any) -> None:
    same_fit(atm.ContinuousLogit.from_formula(FORMULA, dd.from_pandas(rows, npartitions=partitions), **OPTIONS), memory)


def test_uneven_and_empty_partitions(rows: pd.DataFrame, memory: Any) -> None:
    cut = dd.from_pandas(rows, npartitions=5)
    uneven = dd.concat([cut.partitions[:2], cut[cut.x0 > 1e9], cut.partitions[2:]])
    same_fit(atm.ContinuousLogit.from_formula(FORMULA, uneven, **OPTIONS), memory)


def test_other_models(rows: pd.DataFrame) -> None:
    lazy = dd.from_pandas(rows, npartitions=4)
    for model, formula in (
        (atm.NormalLinear, "y ~ x0 + x1 | site + year"),
        (atm.OrdinalRegression, "quality ~ x0 + x1 | site"),
        (atm.ContinuousProbit, "y ~ bs(x0, 4) + x1 | year"),
    ):
        same_fit(model.from_formula(formula, lazy, **OPTIONS), model.from_formula(formula, rows, **OPTIONS))


def test_cluster(client: Client, rows: pd.DataFrame, memory: Any) -> None:
    model = atm.ContinuousLogit.from_formula(FORMULA, dd.from_pandas(rows, npartitions=7), **OPTIONS)
    same_fit(model, memory)
    np.testing.assert_allclose(model.covariance(), memory.covariance(), rtol=1e-6, atol=1e-12)


def test_a_worker_dies(client: Client, rows: pd.DataFrame, memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker is killed while it works on a pass of the fit."""
    whole, killed = DaskSource.map, []

    def strike() -> None:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            busy = [name for name, tasks in client.processing().items() if tasks]
            if busy:
                pid = client.run(os.getpid, workers=busy[:1])[busy[0]]
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
                return

    def slow(frame: pd.DataFrame) -> pd.DataFrame:
        time.sleep(0.3)
        return frame

    def map_and_strike(self: DaskSource, *arguments: Any) -> Any:
        if self.passes != 3:
            return whole(self, *arguments)
        before, self._frame = self._frame, self._frame.map_partitions(slow, meta=self._frame._meta)
        thread = threading.Thread(target=strike)
        thread.start()
        result = whole(self, *arguments)
        thread.join()
        self._frame = before
        return result

    monkeypatch.setattr(DaskSource, "map", map_and_strike)
    lazy = dd.from_pandas(rows, npartitions=6)
    same_fit(atm.ContinuousLogit.from_formula(FORMULA, lazy, **OPTIONS), memory)
    assert len(killed) == 1


def test_left_out_environments_and_bootstrap_on_the_cluster(client: Client, rows: pd.DataFrame) -> None:
    client.wait_for_workers(2)
    some = rows[:300]
    arguments = (some[["x0", "x1"]], some.y, some.region, [0.0, 5.0])
    here = atm.leave_one_environment_out(atm.ContinuousLogit(), *arguments)
    model = atm.ContinuousLogit(xi=1.0).fit(some[["x0", "x1"]], some.y, anchors=some.site)
    draws = model.bootstrap(6, random_state=1).draws
    with joblib.parallel_config(backend="dask"):
        there = atm.leave_one_environment_out(atm.ContinuousLogit(), *arguments)
        draws_there = model.bootstrap(6, random_state=1).draws
    pd.testing.assert_frame_equal(here.frame(), there.frame())
    np.testing.assert_allclose(draws_there, draws, rtol=1e-10)
