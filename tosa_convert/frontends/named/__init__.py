"""Models by their names: what libraries make, in the converter's process and in the framework's."""
