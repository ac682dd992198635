"""Rows: likelihood terms, standardised columns, blocks, projections, sums over blocks."""
