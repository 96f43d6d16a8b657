"""An example of extensions of tosa-convert."""
