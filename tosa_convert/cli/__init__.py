"""The command-line tool: one file a verb, and `main` which runs them."""
