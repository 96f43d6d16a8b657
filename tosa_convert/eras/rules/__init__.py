"""How old operations are expressed today, by families."""
