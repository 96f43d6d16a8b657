"""Graph -> MLIR: types, attributes, locations and constants as a module has them."""
