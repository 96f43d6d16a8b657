"""Run programs on the reference model: their inputs, states, results and the tensors between."""
