"""The command-line tool: one file for each verb, and `main`, which runs them."""
