"""What a file says and MLIR has no place for, kept as discardable attributes.

Import writes them, export reads them, and nothing else depends on them: a pass may drop them.
"""

from __future__ import annotations

from typing import Final

#: The name of an argument or a result (the dialect's own attribute), or of an operation's results:
#: a string, or an array of strings.
NAME_ATTRIBUTE: Final = "tosa.tensor_name"
#: What a control-flow operator's regions, their blocks, arguments and results are called: an array
#: with a dictionary of `name`, `block`, `inputs` and `outputs` for each region.
REGIONS_ATTRIBUTE: Final = "tosa.regions"
#: On the module: the TOSA version of the file, where it is higher than the graph needs.
VERSION_ATTRIBUTE: Final = "tosa.version"
