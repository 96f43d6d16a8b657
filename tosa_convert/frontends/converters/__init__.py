"""One module for each framework. They run in the child process, and nothing else imports a framework.

Each has `lower(request, folder) -> Interface`, which writes the module to `program.mlirbc` there.
"""
