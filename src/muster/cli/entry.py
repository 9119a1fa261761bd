"""The start of the process. Until a command runs, Ctrl-C ends the process silently, as it does any other program."""

import gc
import signal


def main() -> None:
    """Import the command line and run it."""
    # A signal that the shell ignores for background jobs stays ignored.
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from muster.cli.main import main as run

    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run()
    finally:
        if interruptible:  # an interrupt during the interpreter's shutdown needs no report
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        gc.freeze()  # else the interpreter's shutdown looks for garbage among all modules, which takes 15 ms
