"""TFLite models, by rules of our own for their operators."""
