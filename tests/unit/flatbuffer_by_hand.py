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

#: The first byte of each row, its field, what part of the field it is, and its value.
ROWS = """
0 : offset of the root table TosaGraph: -> 0x10
4 : identifier: 'TOSA'
8 : vtable of TosaGraph: its size: 8
10 : vtable of TosaGraph: size of the table: 12
12 : vtable of TosaGraph: place of version: 4
14 : vtable of TosaGraph: place of regions: 8
16 : table TosaGraph: offset of its vtable: -> 0x8
20 version: offset: -> 0x28
24 regions: offset: -> 0x3c
28 version: vtable of Version: its size: 12
30 version: vtable of Version: size of the table: 20
32 version: vtable of Version: place of _major: 4
34 version: vtable of Version: place of _minor: 8
36 version: vtable of Version: place of _patch: 12
38 version: vtable of Version: place of _draft: 16
40 version: table Version: offset of its vtable: -> 0x1c
44 version._major: : 1
48 version._minor: : 0
52 version._patch: : 0
56 version._draft: : 0
57 version: padding:
60 regions: length of the vector: 1
64 regions[0]: offset: -> 0x4c
68 regions[0]: vtable of TosaRegion: its size: 8
70 regions[0]: vtable of TosaRegion: size of the table: 12
72 regions[0]: vtable of TosaRegion: place of name: 4
74 regions[0]: vtable of TosaRegion: place of blocks: 8
76 regions[0]: table TosaRegion: offset of its vtable: -> 0x44
80 regions[0].name: offset: -> 0xc0
84 regions[0].blocks: offset: -> 0x58
88 regions[0].blocks: length of the vector: 1
92 regions[0].blocks[0]: offset: -> 0x70
96 regions[0].blocks[0]: vtable of TosaBasicBlock: its size: 14
98 regions[0].blocks[0]: vtable of TosaBasicBlock: size of the table: 20
100 regions[0].blocks[0]: vtable of TosaBasicBlock: place of name: 4
102 regions[0].blocks[0]: vtable of TosaBasicBlock: place of operators: 0
104 regions[0].blocks[0]: vtable of TosaBasicBlock: place of tensors: 8
106 regions[0].blocks[0]: vtable of TosaBasicBlock: place of inputs: 12
108 regions[0].blocks[0]: vtable of TosaBasicBlock: place of outputs: 16
110 : padding:
112 regions[0].blocks[0]: table TosaBasicBlock: offset of its vtable: -> 0x60
116 regions[0].blocks[0].name: offset: -> 0xc0
120 regions[0].blocks[0].tensors: offset: -> 0x84
124 regions[0].blocks[0].inputs: offset: -> 0x8c
128 regions[0].blocks[0].outputs: offset: -> 0x8c
132 regions[0].blocks[0].tensors: length of the vector: 1
136 regions[0].blocks[0].tensors[0]: offset: -> 0xa0
140 regions[0].blocks[0].inputs: length of the vector: 1
144 regions[0].blocks[0].inputs[0]: offset: -> 0xb8
148 regions[0].blocks[0].tensors[0]: vtable of TosaTensor: its size: 10
150 regions[0].blocks[0].tensors[0]: vtable of TosaTensor: size of the table: 16
152 regions[0].blocks[0].tensors[0]: vtable of TosaTensor: place of name: 4
154 regions[0].blocks[0].tensors[0]: vtable of TosaTensor: place of shape: 8
156 regions[0].blocks[0].tensors[0]: vtable of TosaTensor: place of type: 12
158 : padding:
160 regions[0].blocks[0].tensors[0]: table TosaTensor: offset of its vtable: -> 0x94
164 regions[0].blocks[0].tensors[0].name: offset: -> 0xb8
168 regions[0].blocks[0].tensors[0].shape: offset: -> 0xb0
172 regions[0].blocks[0].tensors[0].type: : FP32 (7)
176 regions[0].blocks[0].tensors[0].shape: length of the vector: 1
180 regions[0].blocks[0].tensors[0].shape: elements: [2]
184 regions[0].blocks[0].tensors[0].name: length of the string: 1
188 regions[0].blocks[0].tensors[0].name: string: 'x'
189 regions[0].blocks[0].tensors[0].name: zero that ends the string:
190 : padding:
192 regions[0].name: length of the string: 4
196 regions[0].name: string: 'main'
200 regions[0].name: zero that ends the string:
201 : padding:
"""
