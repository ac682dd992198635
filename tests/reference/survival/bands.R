# Survival curves of coxph with their log-log bands and quantiles, on the made rows of coxph.json: writes bands.json.
suppressMessages({library(survival); library(jsonlite)})
rows <- as.data.frame(fromJSON("coxph.json")$columns$made)
rows$off <- 0.3 * sin(seq_len(nrow(rows)))
new <- data.frame(x1 = c(0.5, -1.2, 0.1), x2 = c(-0.3, 0.8, 2.0), stratum = rows$stratum[c(1, 2, 3)], off = c(0, 0.2, -0.4))
control <- coxph.control(eps = 1e-14, iter.max = 60, toler.chol = 1e-15, timefix = FALSE)
probabilities <- c(0.1, 0.25, 0.5)
parts <- list(character(), "entry", "strata", "weights", "offset", c("entry", "strata", "weights", "offset"))
cases <- list()
for (ties in c("efron", "breslow")) for (own in parts) {
  outcome <- if ("entry" %in% own) "Surv(entry, time, event)" else "Surv(time, event)"
  terms <- c("x1", "x2", if ("strata" %in% own) "strata(stratum)", if ("offset" %in% own) "offset(off)")
  formula <- as.formula(paste(outcome, "~", paste(terms, collapse = " + ")))
  rows$w <- if ("weights" %in% own) rows$weight else rep(1, nrow(rows))
  fit <- coxph(formula, rows, weights = w, ties = ties, robust = FALSE, control = control)
  curves <- lapply(1:3, function(i) {
    curve <- survfit(fit, newdata = new[i, ], conf.type = "log-log", censor = FALSE)
    quantiles <- quantile(curve, probabilities)
    list(time = curve$time, sf = as.vector(curve$surv), lower = as.vector(curve$lower), upper = as.vector(curve$upper),
         quantile = lapply(quantiles, as.vector))
  })
  cases[[length(cases) + 1]] <- list(ties = ties, parts = I(own), curves = curves)
}
software <- paste("R", getRversion(), "survival", packageVersion("survival"))
result <- list(software = software, new = new, offset = rows$off, probabilities = probabilities, cases = cases)
write(toJSON(result, digits = 12, auto_unbox = TRUE, na = "null", dataframe = "columns"), "bands.json")
