"""The differences of two programs, aligned by what they compute and not by the names of their values."""
