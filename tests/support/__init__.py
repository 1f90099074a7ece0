"""Helpers of the tests: made-up competitions, models, runs and servers."""
