"""Define a flatbuffer by hand: its bytes, and what each of them is."""

#: A graph that returns its argument x, FP32 of shape [2]. An offset counts from its own position.
_TEXT = """
    10000000 544f5341                   #   0 the root table is at 16; identifier "TOSA"
    0800 0c00 0400 0800                 #   8 vtable of the graph: 8 bytes; version at 4, regions at 8
    08000000 14000000 24000000          #  16 graph: vtable 8 back; version at 40; regions at 60
    0c00 1400 0400 0800 0c00 1000       #  28 vtable of the version: four slots
    0c000000 01000000 00000000 00000000 #  40 version: 1, 0, 0
    00 000000                           #  56 ... not a draft; padding
    01000000 0c000000                   #  60 regions: one, at 76
    0800 0c00 0400 0800                 #  68 vtable of the region
    08000000 70000000 04000000          #  76 region: name at 192; blocks at 88
    01000000 14000000                   #  88 blocks: one, at 112
    0e00 1400 0400 0000 0800 0c00 1000  #  96 vtable of the block: no operators, no shapes
    0000                                # 110 padding
    10000000 4c000000 0c000000          # 112 block: name at 192; tensors at 132
    10000000 0c000000                   # 124 ... inputs at 140; outputs at 140, the same list
    01000000 18000000                   # 132 tensors: one, at 160
    01000000 28000000                   # 140 names: one, at 184
    0a00 1000 0400 0800 0c00 0000       # 148 vtable of the tensor: name, shape, type; padding
    0c000000 14000000 08000000 07000000 # 160 tensor: name at 184; shape at 176; FP32
    01000000 02000000                   # 176 shape: one dimension, 2
    01000000 78 000000                  # 184 "x"
    04000000 6d61696e 00 000000         # 192 "main"
"""
BY_HAND = bytes.fromhex("".join(line.partition("#")[0] for line in _TEXT.splitlines()))
