"""Programs that read what this package writes: what each of them reads."""
