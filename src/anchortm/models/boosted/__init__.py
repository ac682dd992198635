"""Models whose shift is a sum of trees."""
