"""Run campaigns against a consumer: random valid programs until time is over."""
