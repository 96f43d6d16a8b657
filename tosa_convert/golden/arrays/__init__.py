"""Arrays by name: as programs take and give them, in .npy and .npz files, in temporary folders."""
