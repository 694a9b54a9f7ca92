"""Entry point of the process: ``irtools`` and ``python -m irtools``.

This module imports little before it handles signals, so an interrupt during the import of the command line
prints no traceback.
"""

import sys

if __name__ == "__main__" and not sys.flags.safe_path and sys.path and not __file__.startswith(sys.path[0]):
    # `python -m` puts the working directory first, which is often a model directory: Python files in it must not run.
    del sys.path[0]

import signal
from types import FrameType

__all__ = ["main"]

_ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def main() -> None:
    """Run the command line and exit; SIGTERM and SIGHUP clean up as Ctrl-C does."""
    try:
        for number in _ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP, a shell SIGINT for `&`
                signal.signal(number, _interrupt)
        from irtools.cli import main as run

        run()
    except KeyboardInterrupt as error:
        if sys.stderr is not None:
            sys.stderr.write("irtools: error: interrupted\n")
        sys.exit(128 + (error.args[0] if error.args else signal.SIGINT))


def _interrupt(number: int, _frame: FrameType | None) -> None:
    """End like Ctrl-C; later signals do not interrupt the clean-up."""
    for other in _ENDING:
        if signal.getsignal(other) is _interrupt:
            signal.signal(other, signal.SIG_IGN)
    # Not a separate class: only on KeyboardInterrupt does subprocess limit its wait for the child.
    raise KeyboardInterrupt(number)


if __name__ == "__main__":
    main()
