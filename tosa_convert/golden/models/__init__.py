"""Models of frameworks, lowered and compared with their framework: one, and suites of them.

It joins `frontends`, which lowers, with `golden`, which runs and compares.
"""
