"""Keras models to TOSA: traced on the backend for JAX, and lowered as JAX is."""
