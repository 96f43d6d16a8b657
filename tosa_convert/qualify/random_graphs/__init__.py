"""`generate`: random valid programs."""
