"""Child processes under limits, many jobs in worker processes, and ending signals."""
