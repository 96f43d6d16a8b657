"""Run suites of models of frameworks: the cases, their runs, and what does not lower."""
