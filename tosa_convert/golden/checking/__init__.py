"""Compare a program on the reference model and on a backend: `check`."""
