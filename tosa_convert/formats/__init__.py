"""Adapters: one folder for each format, and the two modules that choose among them."""
