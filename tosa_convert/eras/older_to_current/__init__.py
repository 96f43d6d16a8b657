"""Bring operations of older releases to the current form."""
