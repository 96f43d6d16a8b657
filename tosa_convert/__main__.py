"""`python -m tosa_convert`: the same as `tosa-flatbuffer`."""

from tosa_convert.cli.start import main

main()
