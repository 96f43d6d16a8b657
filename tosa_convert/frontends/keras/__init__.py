"""Keras models and TensorFlow SavedModels, through TFLite."""
