"""Qualification of backends above the judge: suites, campaigns, bisection, reduction, detection.

It may import everything; nothing below imports it.
"""
