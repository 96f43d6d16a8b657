"""Judge results: tolerances, TOSA's rules, measured errors, and the verdict."""
