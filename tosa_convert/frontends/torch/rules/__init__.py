"""Rules that lower the operators of torch: for each kind of them a table from names to functions."""
