"""Time travel: a run as it was at any moment, from its journals alone."""
