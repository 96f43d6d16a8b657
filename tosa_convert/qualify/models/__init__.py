"""Models of frameworks as suites: the cases, their runs, and what does not lower."""
