"""TensorFlow SavedModels and frozen GraphDefs to TOSA, through TFLite."""
