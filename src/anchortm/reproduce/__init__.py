"""The paper, reproduced: one module for each figure, and the claims that can be checked with it."""
