"""TFLite models, by tosa-converter-for-tflite."""
