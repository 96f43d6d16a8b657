"""Files, recognition of their formats, and the options of reading and writing."""
