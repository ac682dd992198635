"""Benchmarks: the bars of the design and comparisons with peers, as ratios within one run."""
