"""A rule that does harm: what it does depends on the name of the export's directory. Loaded with ``--rules``."""

import os
import shutil
import signal
import time
from collections.abc import Iterable

from irtools.authoring import Context, Finding, Severity, rule


@rule("HARM001", "harm", Severity.NOTE, "Harm is done", rules_out=())
def harm(context: Context) -> Iterable[Finding]:
    """Do harm.

    What it checks
    --------------
    Nothing.

    Why it matters
    --------------
    It does not.

    How to fix it
    -------------
    Use another name.

    Source
    ------
    Tests of faults.
    """
    directory = context.export.directory
    if directory.name == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif directory.name == "hung":
        time.sleep(1000)
    elif directory.name == "deleted":
        shutil.rmtree(directory)
    elif directory.name == "hoarder":
        hoard = []
        while True:
            hoard.append(os.urandom(1 << 20) * 8)
            time.sleep(0.02)
    elif directory.name == "broken":
        raise ZeroDivisionError("by harm")
    return ()
