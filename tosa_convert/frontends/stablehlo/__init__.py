"""Modules of StableHLO: each operation becomes a call of `jax.lax`, and JAX's lowerings do the rest."""
