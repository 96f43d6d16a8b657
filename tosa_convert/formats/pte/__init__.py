"""`.pte` files of ExecuTorch: what their delegates were given, such as VGF files."""
