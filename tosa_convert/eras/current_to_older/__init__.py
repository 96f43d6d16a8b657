"""Write programs in the form of older releases."""
