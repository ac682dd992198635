"""Saved models: the same to the last bit, every kind of them; clear errors for files that are not."""

import json
import math
import os
import re
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from paths import SAVED

import anchortm as atm
from anchortm import saving as persistence
from anchortm._util import files
from anchortm.bases import BernsteinBasis
from anchortm.exceptions import AnchorTMWarning, InputError, InputTypeError, ModelFileError
from anchortm.links import Logistic
from anchortm.saving import VERSION, digest

rng = np.random.default_rng(0)
SITE = rng.integers(0, 4, 200)
X = pd.DataFrame({"age": rng.normal(size=200) + SITE, "dose": rng.normal(size=200)})
LATENT = X.age.to_numpy() + rng.logistic(size=200)
TIME = np.exp(LATENT / 3)
CASES = {
    "linear": (atm.NormalLinear(xi=2.0), LATENT),
    "partialled out": (atm.NormalLinear(xi=-0.5), LATENT),
    "limit": (atm.NormalLinear(xi=math.inf), LATENT),
    "probit": (atm.ContinuousProbit(order=4), LATENT),
    "natural": (atm.ContinuousLogit(xi=1.0, order=4, extrapolate="natural"), LATENT),
    "censored": (atm.ContinuousLogit(xi=3.0, order=3), atm.Surv(np.minimum(TIME, 2.0), TIME < 2.0)),
    "log first": (atm.ProportionalHazards(xi=1.0, order=3, log_first=True), atm.Surv(TIME, TIME > 0)),
    "lehmann": (atm.Lehmann(xi=1.0, order=3, support=(-2.0, 4.0)), LATENT),
    "exponential": (atm.ParametricSurvival(dist="exponential"), TIME),
    "classes": (
        atm.OrdinalRegression(xi=1.0, link="probit"),
        pd.Categorical(np.array(["lo", "mid", "hi"])[np.digitize(LATENT, [0, 2])], ["lo", "mid", "hi"], ordered=True),
    ),
    "numbers as classes": (atm.OrdinalRegression(), np.digitize(LATENT, [0, 2]) + 3),
    "count": (atm.CountRegression(xi=1.0, order=3), np.floor(np.exp(LATENT / 2)).astype(int)),
    "triple": (atm.AnchorTM(link="loglog", basis="linear"), LATENT),
    "own basis": (atm.AnchorTM(link=Logistic(), basis=BernsteinBasis(3, (-2.0, 4.0))), LATENT),
    "own start": (atm.NormalLinear(start=([0.0, 1.0], [0.0, 0.0]), tol=1e-10), LATENT),
}


def fit(name: str):
    model, y = CASES[name]
    return model.fit(X, y, anchors=SITE)


@pytest.mark.parametrize("name", CASES)
def test_the_same_to_the_last_bit(name: str, tmp_path: Path) -> None:
    model, y = CASES[name]
    model.fit(X, y, anchors=(SITE > 1).astype(int) if name == "limit" else SITE)
    assert atm.save(model, tmp_path / "model.json") == tmp_path / "model.json"
    again = atm.load(tmp_path / "model.json")
    assert type(again) is type(model)
    one, other = model.predict_distribution(X), again.predict_distribution(X)
    q = [0.05, 0.5, 0.95]
    np.testing.assert_array_equal(one.ppf(q), other.ppf(q))
    np.testing.assert_array_equal(model.nll(X, y), again.nll(X, y))
    np.testing.assert_array_equal(model.residuals(X, y), again.residuals(X, y))
    np.testing.assert_array_equal(model.predict(X), again.predict(X))
    assert str(model.summary()) == str(again.summary())
    np.testing.assert_array_equal(model.covariance(), again.covariance())
    pd.testing.assert_frame_equal(model.history_, again.history_, check_dtype=False)
    assert [p.name for p in tmp_path.iterdir()] == ["model.json"]  # nothing left beside it
    atm.save(again, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "model.json").read_text()


def test_formula_goes_along(tmp_path: Path) -> None:
    data = atm.datasets.load_boston_housing2().assign(zone=lambda d: np.array(["x", "y"])[np.arange(506) % 2])
    formula = "Surv(cmedv, cmedv < 50) ~ bs(lstat, 4) + scale(rm) * zone | town"
    model = atm.ContinuousLogit.from_formula(formula, data, xi=1.0)
    again = atm.load(atm.save(model, tmp_path / "m.json"))
    np.testing.assert_array_equal(again.predict(data), model.predict(data))
    np.testing.assert_array_equal(again.nll(data), model.nll(data))
    with pytest.raises(InputError, match="levels that the fit has not seen: z"):
        again.predict(data.assign(zone="z"))
    with pytest.raises(InputError, match="extrapolation="):
        again.predict(data.assign(lstat=500.0))


def test_a_pipeline_parameter_survives(tmp_path: Path) -> None:
    model = atm.NormalLinear(xi=1.0, anchor_names=["site"]).fit(X.assign(site=SITE), LATENT)
    again = atm.load(atm.save(model, tmp_path / "m.json"))
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize("file", sorted(SAVED.glob("*.json")), ids=lambda file: file.stem)
def test_files_of_every_version_keep_loading(file: Path) -> None:
    """One file of each version of the format, with what it predicted when it was written."""
    wanted = json.loads((SAVED / "predictions" / file.name).read_text())
    model = atm.load(file)
    new = pd.DataFrame(wanted["data"])
    np.testing.assert_allclose(model.predict_distribution(new).ppf(wanted["q"]), wanted["ppf"], rtol=1e-13)


def test_there_is_a_file_of_this_version() -> None:
    versions = {json.loads(file.read_text())["version"] for file in SAVED.glob("*.json")}
    assert versions == set(range(1, VERSION + 1))


@pytest.fixture
def record(tmp_path: Path):
    data = atm.datasets.load_wine()
    model = atm.OrdinalRegression.from_formula("rating ~ temp + contact | judge", data, xi=1.0)
    return json.loads(atm.save(model, tmp_path / "m.json").read_text())


def broken(record, tmp_path: Path, change, rehash: bool = True) -> Path:
    change(record)
    if rehash:  # by someone who knows how
        record["sha256"] = digest(record)
    (tmp_path / "broken.json").write_text(json.dumps(record))
    return tmp_path / "broken.json"


CHANGES = {
    "version": (lambda r: r.update(version=99), "version 99"),
    "no version": (lambda r: r.pop("version"), "version None"),
    "format": (lambda r: r.update(format="other"), "not a model file of anchortm"),
    "class": (lambda r: r.update({"class": "os.system"}), "'class'"),
    "link": (lambda r: r.update(link="tanh"), "'link'"),
    "a field gone": (lambda r: r.pop("coef"), "'coef' is missing"),
    "a word for a number": (lambda r: r["coef"].__setitem__(0, "2"), "'coef'"),
    "too many": (lambda r: r["coef"].append(1.0), "3 coefficients and 2 names"),
    "decreasing": (lambda r: r["baseline"].reverse(), "decreases"),
    "order": (lambda r: r["basis"].update(kind="bernstein", order=10**9), "does not have this kind of basis"),
    "classes": (lambda r: r["basis"]["levels"].append(9), "parameters, not 4"),
    "parameter": (lambda r: r["parameters"].update(run="ls"), "has no parameters run"),
    "fit": (lambda r: r["fit"].update(converged_="yes"), "'converged_'"),
    "fit gone": (lambda r: r["fit"].pop("xi_"), "is inconsistent"),
    "covariance": (lambda r: r["covariance"].update(jacobian=[[1.0]]), "has the shape"),
    "formula": (lambda r: r["formula"].update(covariates="temp"), "not those of its text"),
    "both": (lambda r: r["formula"].update(text="rating ~ temp", covariates="temp"), "are inconsistent"),
    "hostile formula": (
        lambda r: r["formula"].update(covariates="temp + contact + {open('x')}"),
        "not a function of formulas",
    ),
    "hostile text": (lambda r: r["formula"].update(text="open('x') ~ temp"), "should be a column"),
    "hostile levels": (lambda r: r["formula"]["levels"].update(temp=[]), "is inconsistent"),
    "reordered": (lambda r: r["coef_names"].reverse(), "does not give the covariates"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_files_that_do_not_hold_together(record, tmp_path: Path, name: str) -> None:
    change, message = CHANGES[name]
    with pytest.raises(ModelFileError, match=message):
        atm.load(broken(record, tmp_path, change))


def test_damage_is_noticed(record, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="changed or damaged"):
        atm.load(broken(record, tmp_path, lambda r: r["coef"].__setitem__(0, 0.1), rehash=False))


TRANSFORMS = {
    "none": lambda t: t["pairs"].clear(),
    "fewer knots": lambda t: t["pairs"][0][1]["pairs"][2][1].pop(),
    "knots in disorder": lambda t: t["pairs"][0][1]["pairs"][2][1].reverse(),
    "text": lambda t: t["pairs"][0].__setitem__(1, "scale"),
    "null": lambda t: t["pairs"][0].__setitem__(1, None),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_are_checked(tmp_path: Path, name: str) -> None:
    model = atm.NormalLinear.from_formula("cmedv ~ bs(lstat, 4)", atm.datasets.load_boston_housing2())
    record = json.loads(atm.save(model, tmp_path / "m.json").read_text())
    with pytest.raises(ModelFileError):
        atm.load(broken(record, tmp_path, lambda r: TRANSFORMS[name](r["formula"]["transforms"])))


def test_a_steep_baseline_that_falls_is_noticed(tmp_path: Path) -> None:
    model = atm.ContinuousLogit(order=4).fit(X, LATENT)
    record = json.loads(atm.save(model, tmp_path / "m.json").read_text())
    with pytest.raises(ModelFileError, match="decreases"):
        atm.load(broken(record, tmp_path, lambda r: r.update(baseline=[-1e12, 0, 0, 5000, 0])))


def test_models_whose_rows_have_changed_are_saved(tmp_path: Path) -> None:
    """Standard errors cannot be computed any more, but predictions are those of the fit."""
    rows = X.to_numpy().copy()
    model = atm.NormalLinear(xi=2.0).fit(rows, LATENT, anchors=SITE)
    rows += 1.0
    loaded = atm.load(atm.save(model, tmp_path / "model.json"))
    np.testing.assert_array_equal(loaded.predict(X.to_numpy()), model.predict(X.to_numpy()))
    with pytest.raises(InputError, match="changed in place"):
        model.covariance()


def test_files_that_are_no_models(tmp_path: Path, record) -> None:
    text = json.dumps(record)
    for content, message in (
        (text[: len(text) // 2].encode(), "truncated"),
        (b"", "truncated"),
        (b"\x80\x04\x95 pickle", "not text"),
        (b"[]", "not a model file of anchortm"),
        (b"[" * 100_000, "complete JSON"),
        (b'{"format": "anchortm-model", "version": NaN}', "complete JSON"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "complete JSON"),
    ):
        (tmp_path / "bad.json").write_bytes(content)
        with pytest.raises(ModelFileError, match=message):
            atm.load(tmp_path / "bad.json")
    with pytest.raises(ModelFileError, match="cannot read"):
        atm.load(tmp_path / "nowhere.json")


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    class Own(Logistic):
        name = "own"

    for model, message in (
        (atm.AnchorTM(link=Own(), order=3).fit(X, LATENT), "not one of our links"),
        (type("Mine", (atm.NormalLinear,), {})().fit(X, LATENT), "not a model of this package"),
        ("a model", "needs a model of this package"),
    ):
        with pytest.raises(InputTypeError, match=message):
            atm.save(model, tmp_path / "m.json")
    with pytest.raises(InputError, match=r"the folder .* does not exist"):
        atm.save(fit("linear"), tmp_path / "nowhere" / "m.json")
    with pytest.raises(InputError, match=r"end in \.json"):
        atm.save(fit("linear"), tmp_path / "model.pkl")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        atm.save(fit("linear"), tmp_path / "folder.json")
    (tmp_path / "folder.json").rmdir()
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def special(tmp_path: Path) -> Iterator[dict[str, Path]]:
    """Return files that are not regular: a named pipe, a socket, a link, and a device where root may make one."""
    found = {"named pipe": tmp_path / "pipe.json", "socket": tmp_path / "socket.json"}
    os.mkfifo(found["named pipe"])
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(found["socket"]))
        (tmp_path / "link.json").symlink_to("pipe.json")
        with suppress(PermissionError):
            os.mknod(tmp_path / "null.json", stat.S_IFCHR | 0o666, os.makedev(1, 3))
            found["device"] = tmp_path / "null.json"
        yield found | {"(FIFO)": tmp_path / "link.json"}


@pytest.mark.bug("other software", "saving replaced devices and pipes, and loading waited for them for ever")
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_special_files_are_neither_replaced_nor_read(special: dict[str, Path], tmp_path: Path) -> None:
    for kind, file in special.items():
        with pytest.raises(InputError, match=rf"it is a .*{re.escape(kind)}"):
            atm.save(fit("linear"), file)
        with pytest.raises(ModelFileError, match=rf"it is a .*{re.escape(kind)}"):
            atm.load(file)
    assert not any(file.is_file() for file in tmp_path.iterdir())
    assert (tmp_path / "link.json").is_symlink()


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text("old")
    (tmp_path / "link.json").symlink_to("m.json")
    (tmp_path / "dangling.json").symlink_to("new.json")
    for link, file in (("link.json", "m.json"), ("dangling.json", "new.json")):
        assert atm.save(fit("linear"), tmp_path / link) == tmp_path / link
        assert (tmp_path / link).is_symlink()
        assert not (tmp_path / file).is_symlink()
        assert atm.load(tmp_path / file).coef_.size == X.shape[1]
    assert len(list(tmp_path.iterdir())) == 4


def test_a_model_file_has_a_largest_size_whatever_it_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persistence, "MAX_BYTES", 1000)
    (tmp_path / "m.json").write_text(" " * 1001)
    with pytest.raises(ModelFileError, match="more than the 1000 bytes"):
        atm.load(tmp_path / "m.json")
    monkeypatch.setattr(files, "check_regular", lambda _: 0)  # as in /proc
    with pytest.raises(ModelFileError, match="more than the 1000 bytes"):
        atm.load(tmp_path / "m.json")


def test_a_fit_that_did_not_converge_says_so_again(tmp_path: Path) -> None:
    with pytest.warns(AnchorTMWarning, match="did not converge"):
        model = atm.ContinuousLogit(xi=1.0, max_iter=1).fit(X, LATENT, anchors=SITE)
    again = atm.load(atm.save(model, tmp_path / "m.json"))
    assert "did not converge" in str(again.summary())
    assert str(again.summary()) == str(model.summary())
    with pytest.raises(InputError, match="no standard errors"):
        again.covariance()


def test_what_a_file_does_not_take_is_not_written(tmp_path: Path) -> None:
    seeded = atm.NormalLinear(random_state=2**100).fit(X, LATENT)
    assert atm.load(atm.save(seeded, tmp_path / "seed.json")).random_state == 2**100
    with pytest.raises(InputError, match="cannot be saved: its coef is too large for a file"):
        atm.save(atm.NormalLinear().fit(1e-220 * X, LATENT), tmp_path / "large.json")
    assert [file.name for file in tmp_path.iterdir()] == ["seed.json"]


def test_arguments_that_a_file_cannot_have_are_refused_before_writing(tmp_path: Path) -> None:
    """Arguments that were set after the fit and cannot be combined: load would refuse the file."""
    model = atm.NormalLinear(-0.2).fit(X, LATENT, anchors=np.arange(len(X)) % 3)
    model.set_params(l1=0.5)
    with pytest.raises(InputError, match="an l1 penalty cannot be combined with xi below 0"):
        atm.save(model, tmp_path / "m.json")
    assert not (tmp_path / "m.json").exists()
