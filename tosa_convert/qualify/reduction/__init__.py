"""`reduce`: the smallest part of a program that still fails, and the simplest data."""
