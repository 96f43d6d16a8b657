"""Run backends: programs that compute a model; or read recorded results of them."""
