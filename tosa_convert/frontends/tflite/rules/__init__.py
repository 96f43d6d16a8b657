"""Rules of TFLite's operators, by families."""
