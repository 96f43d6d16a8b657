"""Run folders of test cases, through our formats or on a backend, and report on them: `suite`."""
