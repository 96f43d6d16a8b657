"""Programs of older releases in the form of TOSA 1.0 and 1.1, by the rows of `table.py`."""
