"""What TOSA allows: the types, shapes and attributes of each operator, and what a program needs."""
