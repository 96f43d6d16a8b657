"""Programs of older releases of TOSA in the form of TOSA 1.0 and 1.1.

The rules are rows of a table (`table.py`), one for each operation whose form has changed. They know
operations and the graph, and no file format: the readers of MLIR and of old `.tosa` files make an
`OldOperation` of what they find, and `block.upgraded` replaces it by operators of today. What cannot be
expressed is refused with the operation and the reason. Source of the rules: the definitions of the
dialect in released packages, and runs of small programs in them.
"""
