"""Data sets that come with the package; nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any, Literal

from anchortm._util.frames import read_csv
from anchortm.exceptions import InputError

__all__ = [
    "load_ames",
    "load_boston_housing2",
    "load_cgd",
    "load_computers",
    "load_geyser",
    "load_grouseticks",
    "load_wine",
]


def __dir__() -> list[str]:
    return sorted(__all__)


Backend = Literal["pandas", "polars"]


def _load(name: str, backend: str) -> Any:
    if backend not in ("pandas", "polars"):
        raise InputError(f"backend must be 'pandas' or 'polars', not {backend!r}")
    with (files("anchortm") / "data" / f"{name}.csv").open(encoding="utf-8") as file:
        frame = read_csv(file)
    if backend == "pandas":
        return frame
    import polars as pl

    return pl.DataFrame({column: frame[column].to_list() for column in frame})


def load_boston_housing2(backend: Backend = "pandas") -> Any:
    """Return house prices in 506 census tracts of 92 towns around Boston in 1970.

    =========  =============================================================================
    cmedv      median value of owner-occupied homes, 1000 dollars (corrected); 16 tracts at
               50 are censored there
    crim       crimes per head
    zn         share of land zoned for large lots, per cent
    indus      share of non-retail business, per cent
    nox        nitric oxides, parts per 10 million
    rm         rooms per dwelling
    age        share of homes built before 1940, per cent
    lstat      share of inhabitants of lower status, per cent
    town       the environment of the paper
    tract      number of the census tract
    =========  =============================================================================

    These are the columns that the paper uses. The other columns of the original are left out on purpose:
    ``b`` transforms the share of Black inhabitants by a formula that presumes an effect of race on
    prices, and does not belong in an example. The rest is not needed.

    Source: Harrison and Rubinfeld (1978), Journal of Environmental Economics and Management 5, 81-102;
    corrected by Gilley and Pace (1996), same journal 31, 403-405.

    Examples
    --------
    >>> from anchortm.datasets import load_boston_housing2
    >>> data = load_boston_housing2()
    >>> data.shape, data.town.nunique(), int((data.cmedv == 50).sum())
    ((506, 10), 92, 16)
    """
    return _load("boston_housing2", backend)


def load_geyser(backend: Backend = "pandas") -> Any:
    """Return 299 eruptions of the Old Faithful geyser: ``waiting`` and ``duration``, in minutes.

    Durations recorded at night as short, medium or long are coded as 2, 3 and 4 minutes.

    Source: Azzalini and Bowman (1990), Applied Statistics 39, 357-365.

    Examples
    --------
    >>> from anchortm.datasets import load_geyser
    >>> load_geyser().shape
    (299, 2)
    """
    return _load("geyser", backend)


def load_cgd(backend: Backend = "pandas") -> Any:
    """Return the time to the first serious infection of 128 patients with chronic granulomatous disease.

    A randomised trial of gamma interferon in 13 centres.

    ================  ======================================================================
    tstop, status     days to the first infection (status 1) or to the end of follow-up (0)
    treat             placebo or rIFN-g
    sex, age          female or male; years
    height, weight    centimetres, kilograms
    inherit           autosomal or X-linked
    steroids          use at entry, 0 or 1
    propylac          prophylactic antibiotics at entry, 0 or 1
    center            the hospital, a natural anchor
    id                the patient
    ================  ======================================================================

    Source: Fleming and Harrington (1991), Counting Processes and Survival Analysis, Wiley.

    Examples
    --------
    >>> from anchortm.datasets import load_cgd
    >>> data = load_cgd()
    >>> len(data), data.center.nunique(), int(data.status.sum())
    (128, 13, 44)
    """
    return _load("cgd", backend)


def load_wine(backend: Backend = "pandas") -> Any:
    """Return the bitterness of white wine as rated by nine judges, 72 ratings.

    ================  ======================================================================
    rating            1 (least bitter) to 5
    response          the score from 0 to 100 that the rating was derived from
    temp              temperature while crushing the grapes, cold or warm
    contact           contact of juice and skins, no or yes
    bottle            eight bottles, two for each combination
    judge             nine judges, a natural anchor
    ================  ======================================================================

    Source: Randall (1989), Biometrical Journal 31, 781-793.

    Examples
    --------
    >>> from anchortm.datasets import load_wine
    >>> load_wine().rating.value_counts().sort_index().tolist()
    [5, 22, 26, 12, 7]
    """
    return _load("wine", backend)


def load_grouseticks(backend: Backend = "pandas") -> Any:
    """Return the number of ticks on the heads of 403 red grouse chicks.

    ================  ======================================================================
    TICKS             the count
    YEAR              95, 96 or 97
    HEIGHT, cHEIGHT   altitude in metres; centred
    LOCATION          one of 63, a natural anchor
    BROOD             one of 118, nested in locations
    INDEX             the chick
    ================  ======================================================================

    Source: Elston, Moss, Boulinier, Arrowsmith and Lambin (2001), Parasitology 122, 563-569.

    Examples
    --------
    >>> from anchortm.datasets import load_grouseticks
    >>> data = load_grouseticks()
    >>> data.TICKS.max().item(), data.LOCATION.nunique()
    (85, 63)
    """
    return _load("grouseticks", backend)


def load_computers(backend: Backend = "pandas") -> Any:
    """Return the prices of 6259 personal computers, from advertisements of January 1993 to November 1995.

    ================  ======================================================================
    price             dollars
    speed             clock speed, MHz
    hd, ram           size of hard disk and memory, MB
    screen            size of the screen, inches
    cd                whether it has a CD drive, yes or no
    multi             whether a multimedia kit is included, yes or no
    premium           whether a premium firm made it (IBM, Compaq), yes or no
    ads               number of advertisements in the month
    trend             the month, 1 to 35: an environment. Later months have better machines
    ================  ======================================================================

    Source: Stengos and Zacharias (2006), Journal of Applied Econometrics 21, 371-386, from the journal's data archive;
    values as in the R package Ecdat. All rows and columns are here.

    Examples
    --------
    >>> from anchortm.datasets import load_computers
    >>> data = load_computers()
    >>> len(data), data.trend.nunique(), data.groupby("trend").speed.mean()[[1, 35]].round().tolist()
    (6259, 35, [44.0, 82.0])
    """
    return _load("computers", backend)


def load_ames(backend: Backend = "pandas") -> Any:
    """Return 2930 sales of houses in 28 neighbourhoods of Ames, Iowa, 2006 to 2010.

    ==============  ========================================================================
    Sale_Price      dollars
    Neighborhood    one of 28, a natural anchor; between 1 and 443 sales
    Gr_Liv_Area     living area above ground, square feet
    Lot_Area        size of the lot, square feet
    Year_Built      year of construction
    Year_Remod_Add  year of the last remodelling; of construction if there was none
    Total_Bsmt_SF   size of the basement, square feet
    Garage_Cars     size of the garage, cars
    Full_Bath       full bathrooms above ground
    Half_Bath       half bathrooms above ground
    Bedroom_AbvGr   bedrooms above ground
    Fireplaces      their number
    Central_Air     central air conditioning, Y or N
    Year_Sold       year of the sale
    ==============  ========================================================================

    All sales are here, with these 14 of the 82 columns of the original.

    Source: De Cock (2011), Journal of Statistics Education 19(3), who published the records of the Ames City Assessor's
    Office for teaching; values as in the R package modeldata.

    Examples
    --------
    >>> from anchortm.datasets import load_ames
    >>> data = load_ames()
    >>> data.shape, data.Neighborhood.nunique(), int(data.Sale_Price.median())
    ((2930, 14), 28, 160000)
    """
    return _load("ames", backend)


LOADERS: dict[str, Callable[..., Any]] = {
    "ames": load_ames,
    "boston_housing2": load_boston_housing2,
    "cgd": load_cgd,
    "computers": load_computers,
    "geyser": load_geyser,
    "grouseticks": load_grouseticks,
    "wine": load_wine,
}
