"""Compile the kernels. It needs a C compiler and nothing else; ``python build.py`` does it in place.

The library has no Python in it and is loaded by ``ctypes``, so one file serves every version of Python. The installer
runs this too; where it fails, the package goes without the library and uses NumPy.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zlib
from pathlib import Path

__all__ = ["FOLDER", "LIBRARY", "build", "fingerprint"]

FOLDER = Path(__file__).parent
LIBRARY = "kernels.so"
# Without -ffast-math: NaN, infinities and the order of sums stay as written.
FLAGS = ["-std=gnu11", "-O3", "-fno-fast-math", "-fno-math-errno", "-fno-trapping-math", "-fvisibility=hidden"]


def sources() -> list[Path]:
    """Return the files in C."""
    return sorted([*FOLDER.glob("*.c"), *FOLDER.glob("*.h")])


def fingerprint() -> int:
    """Return a number that changes with the sources and this file; a library that was made from others is not used."""
    number = 0
    for path in [*sources(), FOLDER / "build.py"]:
        number = zlib.crc32(path.read_bytes(), number)
    return number


def _compilers() -> list[list[str]]:
    """Return the commands to try: that of the environment, that of Python, and the usual names."""
    named = [os.environ.get("CC", ""), str(sysconfig.get_config_var("CC") or ""), "cc", "gcc", "clang"]
    commands = [shlex.split(name) for name in named if name]
    return [command for command in commands if shutil.which(command[0])]


def build(target: Path) -> str | None:
    """Compile the library to ``target``; return None, or why it could not be done."""
    if sys.platform == "win32":
        return "no kernels are built on Windows"
    reason = "no C compiler was found"
    files = [str(path) for path in sources() if path.suffix == ".c"]
    fixed = [*FLAGS, f"-DANCHORTM_FINGERPRINT={fingerprint()}u", *files, "-shared", "-fPIC"]
    for compiler in _compilers():
        for wide in (["-DANCHORTM_WIDE"], []):  # not all systems can choose among widths when a library is loaded
            try:
                with tempfile.TemporaryDirectory(dir=target.parent) as folder:
                    fresh = Path(folder) / target.name
                    line = [*compiler, *wide, *fixed, "-o", str(fresh), "-lm"]
                    done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False)  # noqa: S603
                    if done.returncode == 0:
                        ctypes.CDLL(str(fresh))  # it is for this machine
                        fresh.replace(target)  # at once: a running program keeps the library that it has loaded
                        return None
                    reason = done.stderr.strip() or f"{compiler[0]} stopped with code {done.returncode}"
            except (OSError, subprocess.TimeoutExpired) as error:
                reason = str(error)
    return reason


if __name__ == "__main__":
    sys.exit(build(FOLDER / LIBRARY))
