"""Find which operators of a program a backend gets wrong: `bisect`."""
