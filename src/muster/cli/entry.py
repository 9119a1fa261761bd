"""The start of the process. Until a command runs, Ctrl-C ends the process silently, as it does any other program."""

# The core of `signal`, which itself imports other modules first: a Ctrl-C meanwhile would print a traceback.
import _signal  # type: ignore[import-not-found]
import gc


def main() -> None:
    """Import the command line and run it.

    An interrupt before the import ends, or after the command, ends the process at once, without a traceback.
    """
    # A signal that the shell ignores for background jobs stays ignored.
    interruptible = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
    if interruptible:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    from muster.cli.main import main as run

    if interruptible:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    try:
        run()
    finally:
        if interruptible:  # an interrupt during the interpreter's shutdown needs no report
            _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
        gc.freeze()  # else the interpreter's shutdown looks for garbage among all modules, which takes 15 ms
