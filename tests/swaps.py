"""Another process that swaps a directory for a link, again and again."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PROGRAM = """
import os, sys, time
root, name, outside, seconds = sys.argv[1:]
os.chdir(root)
os.symlink(outside, "link")
print("ready", flush=True)
end = time.monotonic() + float(seconds)
while time.monotonic() < end:
    os.rename(name, "kept"); os.rename("link", name)
    os.rename(name, "link"); os.rename("kept", name)
"""


@contextmanager
def swapping(root: Path, name: str, outside: Path) -> Iterator[None]:
    """Meanwhile, `name` in `root` is now a directory, now a link to `outside`, now nothing."""
    program = [sys.executable, "-c", _PROGRAM, str(root), name, str(outside), "50"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as swapper:
        try:
            assert swapper.stdout
            assert swapper.stdout.readline() == "ready\n"
            yield
        finally:
            swapper.kill()
