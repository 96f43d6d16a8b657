"""Find at which link and tensor, from the float model to the device, an error comes in: `chain`."""
