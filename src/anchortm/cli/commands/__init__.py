"""The commands, one file each: ``add`` adds its arguments, ``run`` does its work. The file is imported when called."""

__all__ = ["COMMANDS"]

# what each command does; the help lists the first sentences, in this order
COMMANDS = {
    "check": "Look at a table before a fit. Lists its columns, sites and missing values, what a fit would refuse, and "
    "how to repair it. Exits with 1 if something would be refused.",
    "fit": "Fit a model to a table and print its summary. With several xi, a table of all fits.",
    "diagnose": "Ask whether anchoring is needed, can work, and has worked. Tests whether the sites still matter after "
    "the covariates, measures how much they shift the covariates, and compares residuals with and without the penalty.",
    "choose": "Choose xi, the strength of the anchor penalty. Prints what each rule would choose, or one rule in "
    "detail.",
    "assess": "Find out whether anything helps at a new place, and what to do: keep maximum likelihood, anchor, "
    "recalibrate or collect some outcomes there. Prints the reasons, and writes a page for browsers with --report.",
    "compare": "Compare strategies at left-out places: does anchoring help at a new one? Measures maximum likelihood, "
    "a wider spread and anchoring at places like these and at places further out, and says what to use.",
    "parents": "Find causes of the outcome: the covariates in every set that explains it in the same way at all sites "
    "(invariant causal prediction). Tests all sets. Assumes that nothing hidden acts on both the outcome and its "
    "causes.",
    "path": "Fit a model along xi. Prints loss and coefficients for each value.",
    "loeo": "Leave each environment out in turn and predict it from the others, for each xi.",
    "site": "Take part in a fit whose rows stay at their sites, or prepare one. Writes a study file and keys, says "
    "what a site would refuse, joins a hub and answers its questions with sums, and prints the ledger of questions.",
    "predict": "Predict distributions of new rows with a saved model. Without options, prints their medians or "
    "classes.",
    "score": "Score a saved model on rows whose outcome is known, all together and by site.",
    "report": "Report on a saved model at the places of a table: what it is, what it predicts there, how well "
    "outcomes agree if the table has them, which rows leave the training range, and how covariates differ from those "
    "of the fit.",
    "recalibrate": "Recalibrate a saved model at a new place with a few rows from there whose outcomes are known.",
    "show": "Show what is in a saved model. Prints the formula, the rows of the fit, xi, the coefficients, and the "
    "columns that new rows need.",
    "data": "Write one of the data sets that come with anchortm to a file.",
    "demo": "Show what anchoring does, on house prices in 92 towns.",
    "reproduce": "Compute the figures and claims of the paper, and judge each claim.",
    "survey": "Measure what helps at left-out places, on 90 published data sets. Writes the page with its tables and "
    "pictures. An interrupted survey resumes where it stopped.",
    "bench": "Measure speed and memory side by side with peers, as ratios in one run.",
    "completion": "Print a script that completes commands and options in your shell.",
}
