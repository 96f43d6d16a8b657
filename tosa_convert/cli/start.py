"""The first module of the commands: Ctrl-C during the imports ends the process as it ends any other.

Until `main` handles signals, Python would answer one with a traceback of whatever it was importing.
Nothing has been written by then, so there is nothing to clean up.
"""

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from tosa_convert.cli.main import main, main_convert

__all__ = ["main", "main_convert"]
