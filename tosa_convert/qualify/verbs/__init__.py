"""Define the verbs of qualification: `bisect`, `fuzz`, `generate`, `power`, `reduce`, `suite`."""
