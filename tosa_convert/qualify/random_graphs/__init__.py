"""Generate random valid programs: `generate`."""
