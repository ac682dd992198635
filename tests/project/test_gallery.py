"""Every example of the gallery runs as it stands, draws, and prints the numbers that its text speaks of."""

import ast
import re
import runpy

import matplotlib as mpl
import pytest
from paths import GALLERY, ROOT

mpl.use("Agg")

import matplotlib.pyplot as plt

# example -> what it prints, with one space for many
PRINTED = {
    "plot_01_new_centre": [
        "7.613 on 12 degrees of freedom, p = 0.83",
        "0.0 3.815 2.099 2.254 1.0 3.829 2.105 2.256",
        "best for the worst centre: xi = 0",
        "hazard ratio of interferon 0.33",
    ],
    "plot_02_capped_prices": [
        "16 of 506 tracts",
        "exact: 6.1 tracts",
        "censored: 10.8 tracts",
        "above 35 12.6 26.5 31.6 31 above 40 0.3 4.7 11.7 15",
        "above 30 63.4 62.6 62.0 68",
    ],
    "plot_03_judges_disagree": [
        "7 2 4 2 0 0",
        "p = 0.005",
        "judges explain: 0.00",
        "0.0 1.675 1.253 1.308 7",
        "3.0 1.557 1.316 1.325 7",
        "at xi = 3 than at 0: 4 of 9",
    ],
    "plot_04_counts_at_new_sites": [
        "median 2, mean 6.4",
        "0.0 7.76 2.37 2.34 24",
        "3.0 7.33 2.38 2.37 24 5 0.23 0.03 0.02 10.0 6.59 2.71 2.57 24",
        "than at 0: 11 of 63",
        "xi = 0 6.0 23.0 0.028 xi = 10 5.0 80.0 0.155",
    ],
    "plot_05_worst_town": [
        "75% of towns below 3.30 3.42 3.65 3.93 4.34 4.85 0.0",
        "95% of towns below 4.67 4.26 4.04 4.17 4.60 5.11 1.0",
        "100% of towns below 9.75 7.92 6.49 5.18 4.81 5.12 10.0",
        "xi = 0 23.00 0.01 14.92",
        "xi = 10 26.07 0.24 66.89",
    ],
    "plot_06_needed_at_all": [
        "score test, p 0.8 0.005",
        "best xi for it 0 3 10 1",
        "worst, xi = 0 3.78 1.67 15.10 4.07",
        "worst there 3.78 1.56 4.69 3.73",
        "median 2.07 -> 2.07 1.25 -> 1.32 2.82 -> 3.87 3.56 -> 3.60",
    ],
    "plot_07_do_intervention": [
        "0 3.24 3.37 3.61 3.96 4.39 4.88",
        "100 3.37 3.42 3.47 3.52 3.57 3.61",
        "do(A = 0): 0, do(A = 1): 1, do(A = 2): 10, do(A = 3): 100",
        "1.04 at xi = 0, 0.90 at xi = 1, 0.60 at xi = 10, 0.49 at xi = 100",
    ],
    "plot_08_instrumental_variables": [
        "xi = inf: slope 1.0240",
        "least squares 1.7918, two-stage least squares 1.0240",
        "which is xi = 3: 1.3531",
        "xi = 10000: beta = 0.257 standard error at xi = 1e4 0.011",
    ],
    "plot_09_how_sure": [
        "information 0.66 0.48 0.79 0.31",
        "sandwich 0.66 0.49 0.79 0.30",
        "patients resampled 0.66 0.52 0.81 0.29",
        "centres resampled 0.66 0.59 0.84 0.24",
        "all days at once 0.66 0.44 0.81 0.37",
    ],
    "plot_10_whole_distribution": [
        "normal: mean [4.5 3.6 2.7]",
        "any shape: mean [4.4 3.7 2.7], P(2.5 to 3.5 minutes) [0.02 0.08 0.09]",
        "normal 1.32 0.52 0.89 any shape 0.57 0.43 0.96",
    ],
    "plot_11_rows_on_disk": [
        "80000 rows, 4 passes",
        "largest difference below 1e-8: True",
        "10000 0.560 0.018",
        "80000 0.550 0.006",
        "without a penalty, all rows: 0.708",
    ],
    "plot_12_pipeline": [
        "chosen by GridSearchCV: xi = 0.3",
        "keeps xi = 0; 78 of 92 environments have fewer than 10 rows",
        "mean 0.3 3.29 3.27",
        "0.5 0.0 2.82",
        "worst 30.0 15.10 11.77 8.47 5.90 4.69 4.62",
    ],
    "plot_13_two_cox_models": [
        "0.0 0.634 0.636 0.077 0.077",
        "3.0 0.407 0.417 0.039 0.036",
        "1000.0 0.261 0.132 0.032 0.006",
        "CoxPH largest distance from Kaplan-Meier: {0: 0.006, 30: 0.041, 1000: 0.042}",
        "full largest distance from Kaplan-Meier: {0: 0.013, 30: 0.142, 1000: 0.379}",
        "strata 2, each with a baseline of its own",
    ],
    "plot_18_patients_and_laboratories": [
        "rows independent: 46 of 60 intervals hold the truth",
        "random patients: 59 of 60 intervals hold the truth",
        "this one: median 0.83, 90 % from -1.60 to 3.26",
        "10.0 2.371 2.191 2.193 lab 3",
        "xi = 10: effect of the marker 0.43, standard error 0.05; patients differ by 1.69",
        "AnchorWarning: each cluster of patient lies in one level of the anchor lab",
        "xi = 100: effect of the marker -0.65; patients differ by 3.92",
        "xi = 10 without a random effect: effect of the marker 0.33, standard error 0.12",
    ],
    "plot_15_effects_that_vary": [
        "rm 124.6 5 3.374e-25",
        "one for all prices 1.01, varying: 0.23 at 15 000 dollars, 2.17 at 40 000 AIC 2820 -> 2729",
        "0.0 7.41 2.68 2.90 Boston North End",
        "10.0 5.23 3.15 3.32",
        "0.0 9.24 2.58 2.78 Boston Back Bay",
        "10.0 5.31 3.01 3.16",
    ],
    "plot_16_spread_at_new_sites": [
        "maximum likelihood 0.040 0.054 0.216 1.493 3.729 0.529",
        "both 0.241 0.006 0.030 1.721 2.530 0.916",
        "sites alone 0 2.44 0.68 10 2.77 0.36",
        "better in 20 of 20 draws, and in 4 of 20",
    ],
    "plot_19_curved_effects": [
        "xi = 0 | smooth 0.01; degrees of freedom s(lstat) 5.43 of 10, s(rm) 5.07 of 10",
        "xi = 10 | smooth 0.01; degrees of freedom s(lstat) 6.91 of 10, s(rm) 6.50 of 10",
        "smooth = 0.001, xi = 0",
        "1.000 -0.60 -0.59 -0.08 0.88 100.000 -0.42 -0.40 0.18 1.12",
        "0.010 26.15 17.27 7.33 5.17",
        "100.000 14.76 8.35 4.73 4.87",
        "mean 3.29 3.91 3.01 3.53 50% 2.79 3.87 2.56 3.47 max 14.71 4.68 26.15 7.33",
        "xi = 0: 83 of 92 towns",
        "xi = 10: 91 of 92 towns",
    ],
    "plot_14_many_covariates": [
        "64 of 64 converged",
        "0.0 0.18 3 5 0 0.85 4.23",
        "30.0 0.18 5 5 0 0.18 2.29 30.0 0.07 5 5 20 0.26 2.65",
        "300.0 0.07 5 5 33 0.22 2.37",
        "lasso alone 0.0 0.07 5 5 0 0.63 5.28 chosen 30.0 0.05 5 5 51 0.32 3.37",
        "61 of 200 coefficients are not zero",
    ],
    "plot_17_mean_or_distribution": [
        "degrees of freedom 12.5",
        "alpha 1.28, chi-square 1.25",
        "Poisson 4383.0 negative binomial 1942.0 transformation 1944.0",
        "0.0 86.76 2.96 6.24 9.71 2.29 2.40 7.76 2.37 2.34",
        "10.0 421.00 3.37 13.62 8.65 2.45 2.55 6.59 2.71 2.57",
        "Poisson: 0.52 of the chicks in their 90 % intervals negative binomial: 0.84",
    ],
    "plot_21_does_it_help_at_my_new_place": [
        "5229 machines in 24 months, 1030 in the 11 to come",
        "leave-one-out R^2 0.82",
        "0.3: -0.006, 1.0: -0.005, 3.0: 0.026, 10.0: 0.095",
        "the new place is 3.0 SD out): anchored, xi = 10, tentatively",
        "same 0.15 4 1.63 10.0 0.32 0.14 same 0.30 7 1.43 10.0 0.55 0.31 other 0.15 4 0.95 10.0 -0.01 0.05",
        "maximum likelihood 8.39 601.65 0.47 anchored, xi = 10 7.45 339.66 0.87 widened 8.02 601.65 0.80",
    ],
    "plot_23_hospital_13_joins": [
        "xi = 0: effects of marker and age [0.858 0.029]",
        "xi = 3: effects of marker and age [0.464 0.025], 36 rounds so far largest difference",
        "from the pooled fit below 1e-10: True",
        "No xi predicts the 12 left-out sites better",
        "laboratory: 2.5 standard deviations out Anchor with xi = 3",
        "care: 0.5 standard deviations out Keep maximum likelihood",
        "nothing: 0.5 standard deviations out Keep maximum likelihood",
        "frailty: 1.5 standard deviations out Anchor with xi = 3",
        "laboratory 3.0 0.61 0.78 1.05 1.20 care 0.0 0.23 0.00 0.89 1.12",
        "nothing 0.0 -0.10 0.00 0.01 0.13 frailty 3.0 0.16 -0.28 0.60 0.88",
        "laboratory 0.985 0.998 2.570 care 0.464 0.923 5.411 nothing 0.943 0.996 5.411 frailty 0.610 0.919 3.238",
        "5 1.20 0.59 0.42 0.24 10.00 10 1.20 0.59 0.42 0.16 0.72",
        "50 0.88 0.72 1.17 0.26 0.06",
    ],
    "plot_24_three_real_data_sets": [
        "dearest: further out (the new place is 2.4 SD out): the data do not decide",
        "xi = 10: -0.11, -0.23, +0.05, -0.09 then: xi = 10 gained +0.26, a wider spread +0.12, 20 outcomes +0.40",
        "44404 dollars at xi = 0, 36776 at xi = 10",
        "xi = 10: -0.05, -0.05, +0.32, +0.31 then: xi = 10 gained -0.22, a wider spread +0.12, 20 outcomes +0.17",
        "21293 dollars at xi = 0, 24409 at xi = 10",
        "anchored, xi = 10, tentatively; the folds on its side gain (+0.32, +0.55)",
        "xi = 0: mean error of the median 602 dollars, gain +0.00 xi = 10: mean error of the median 340 dollars",
        "month as a covariate: mean error of the median 194 dollars, gain +1.49",
        "governments, Africa 1.0 0.02 3.0 0.03 0.01 0.05",
        "governments, Europe 0.0 0.00 10.0 0.05 -0.01 0.00",
        "governments, Europe: further out (the new place is 2.2 SD out): keep maximum likelihood",
        "then: xi = 10 gained -0.10, a wider spread +0.01, 20 outcomes -0.01",
    ],
    "plot_22_which_are_causes": [
        "1000 lamps, 14% still burn",
        "wear 0.650 0.065 0.000 flicker -0.665 0.035 0.000 vibration -0.044",
        "Causal parents at level 0.05: voltage, temperature (",
        "accepted: voltage + temperature; voltage + temperature + humidity",
        "Causal parents at level 0.05: voltage (",
        "temperature 0.0515 False",
        "accepted: 5 of 64 sets",
        "Every set is rejected at level 0.05",
        "named: voltage, humidity",
        "accepted: voltage + humidity + wear; voltage + humidity + vibration",
    ],
    "plot_20_trees_and_how_far_they_carry": [
        "0.0 0.01 0.49 2.38 2.37 2.31 2.37 2.35",
        "2.0 0.13 0.06 2.61 2.62 2.61",
        "10.0 1.00 0.00 2.93 7.96 4.38 54.30 8.00",
        "linear 2.01 linear + trees 2.14 jumps known 2.42",
        "linear + trees 4.39 2.75",
        "trees 54.27 3.48",
    ],
}


EXAMPLE_FILES = sorted(GALLERY.glob("plot_*.py"))
TAGS = {"continuous", "survival", "ordinal", "counts", "censoring"} | {
    "choosing xi",
    "further out",
    "no gain",
    "diagnostics",
}
TAGS |= {"causality", "uncertainty", "scores", "model extensions", "large tables", "several sites", "scikit-learn"}


def test_every_example_has_its_numbers() -> None:
    assert sorted(path.stem for path in GALLERY.glob("plot_*.py")) == sorted(PRINTED)


def test_every_example_has_tags_and_thumbnails_are_of_examples() -> None:
    tags = {
        path.stem: re.findall(r"^# sphinx_gallery_tags = (\[.+\])$", path.read_text(), re.M) for path in EXAMPLE_FILES
    }
    assert [name for name, found in tags.items() if len(found) != 1] == []
    used = [tag for (found,) in tags.values() for tag in ast.literal_eval(found)]
    assert set(used) <= TAGS
    shown = runpy.run_path(str(ROOT / "docs" / "extensions" / "gallery_panels.py"))["SHOWN"]
    assert set(shown) <= set(PRINTED)


LONG = ("plot_14_many_covariates", "plot_16_spread_at_new_sites", "plot_17_mean_or_distribution")
LONG += ("plot_18_patients_and_laboratories", "plot_19_curved_effects", "plot_21_does_it_help_at_my_new_place")
LONG += ("plot_04_counts_at_new_sites", "plot_06_needed_at_all", "plot_11_rows_on_disk", "plot_12_pipeline")
LONG += ("plot_23_hospital_13_joins", "plot_24_three_real_data_sets")
EXAMPLES = [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in PRINTED]


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_draws_and_prints_its_numbers(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    plt.close("all")
    try:
        runpy.run_path(str(GALLERY / f"{name}.py"), run_name="__main__")
        assert plt.get_fignums()
        for number in plt.get_fignums():
            plt.figure(number).canvas.draw()
    finally:
        plt.close("all")
    printed = " ".join(capsys.readouterr().out.split())
    for part in PRINTED[name]:
        assert part in printed, printed
