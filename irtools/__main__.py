"""The process: ``irtools`` and ``python -m irtools``.

Light on purpose. What it imports before a signal can be caught is little, so that an interrupt
while the command line is being imported is no traceback.
"""

import signal
import sys
from types import FrameType

__all__ = ["main"]

_ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def main() -> None:
    """Run the command line as this process and exit; a signal that ends it cleans up as Ctrl-C does."""
    try:
        for number in _ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup does, and a shell for `&`
                signal.signal(number, _interrupt)
        from irtools.cli import main as run

        run()
    except KeyboardInterrupt as error:
        if sys.stderr is not None:
            sys.stderr.write("irtools: error: interrupted\n")
        sys.exit(128 + (error.args[0] if error.args else signal.SIGINT))


def _interrupt(number: int, _frame: FrameType | None) -> None:
    """End like Ctrl-C; the next signal does not stop the cleaning up."""
    for other in _ENDING:
        if signal.getsignal(other) is _interrupt:
            signal.signal(other, signal.SIG_IGN)
    # Not a class of its own: subprocess knows this one and does not wait for the child then.
    raise KeyboardInterrupt(number)


if __name__ == "__main__":
    main()
