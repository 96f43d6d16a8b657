"""Read and write arrays by name: as programs take them, in .npy and .npz files, in temporary folders."""
