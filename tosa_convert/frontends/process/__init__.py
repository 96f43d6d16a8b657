"""The converter's process: the request, the child, the server, and what the child returns."""
