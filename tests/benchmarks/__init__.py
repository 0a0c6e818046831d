"""Benchmarks: every figure is a ratio against a baseline of the same run. They assert nothing about time."""
