"""Where the command `bellrock` begins and ends, so that Ctrl-C finds it ready: to import the rest takes longer than a person needs to change
their mind, and an interrupt in between would show as a traceback from deep within. What Python does before this file is out of reach."""

import os

INTERRUPTED = 130  # as the shells have it: 128 + SIGINT


def main() -> None:
    """The entry point of the command."""
    try:
        end_at_interrupt()
        from bellrock.cli import main as command
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    command()


def end_at_interrupt() -> None:
    """From here on SIGINT ends the process at once, where it raised KeyboardInterrupt; who ignores it (nohup, a shell's background) goes on."""
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_at_interrupt() -> None:
    """From here on SIGINT raises KeyboardInterrupt, as it does in Python, if it ended the process so far."""
    import signal

    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(_number: int, _frame: object) -> None:
    os._exit(INTERRUPTED)
