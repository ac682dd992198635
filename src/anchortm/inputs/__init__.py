"""What users give, checked once."""
