"""Campaigns against a consumer: random valid programs until time is over, and what they found."""
