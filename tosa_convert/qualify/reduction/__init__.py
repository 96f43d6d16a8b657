"""Reduce a program to the smallest part that still fails, and the simplest data: `reduce`."""
