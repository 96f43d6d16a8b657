"""VGF files of Arm's ML SDK: a SPIR-V module whose graph is a TOSA program, and its constants."""
