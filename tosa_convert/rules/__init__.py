"""What TOSA allows: the types, shapes and attributes of each operator, and what a program needs.

`graph.verify` answers whether a graph is sound; this package answers whether TOSA allows it.
"""
