"""One answer to "does this help at my new place?": what the parts of the package say, and a rule that weighs it."""
