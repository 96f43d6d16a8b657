"""JAX to TOSA: a lowering from the jaxpr of a function."""
