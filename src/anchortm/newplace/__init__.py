"""What is special about predicting at a new place: strategies, their comparison, and calibrated spread."""
