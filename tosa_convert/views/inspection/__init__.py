"""Facts about programs: what is in them, the work and memory that they take, their constants' values.

`show` prints them; other parts that describe programs use the same facts.
"""
