"""Find inputs at the edges of what operators compute, and which of those edges a program meets."""
