"""Programs of which some operators do not lower."""
