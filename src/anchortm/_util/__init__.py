"""Checks, tables, threads and files: what every package uses."""
