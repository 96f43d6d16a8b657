"""Backends: programs that compute a model, or recorded results of them."""
