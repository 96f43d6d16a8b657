"""Qualify backends, above the judge: suites, campaigns, bisection, reduction, detection."""
