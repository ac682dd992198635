"""The paper reproduced: one module for each figure, with the claims that it supports."""
