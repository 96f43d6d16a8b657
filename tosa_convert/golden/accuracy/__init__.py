"""What a result is judged by, and the verdict: tolerances, TOSA's rules, measured errors."""
