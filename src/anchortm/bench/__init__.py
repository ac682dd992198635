"""What the design promises, measured: its bars and its peers side by side, as ratios within one run."""
