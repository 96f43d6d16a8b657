"""Measure how small a wrong number `check` and `bisect` report: `power`."""
