"""Where the process begins: until a command runs, Ctrl-C ends it as it ends any other program, without a word."""

import signal


def main() -> None:
    """Import the command line and run it."""
    # One that is ignored, as a shell does it for what runs in the background, stays so.
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from muster.cli.main import main as run

    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run()
    finally:
        if interruptible:  # the interpreter's own end is nothing to report from
            signal.signal(signal.SIGINT, signal.SIG_DFL)
