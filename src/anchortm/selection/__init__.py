"""Choosing xi: paths, left-out environments, searches."""
