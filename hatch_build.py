"""Compile the kernels when the package is built or installed; without a C compiler it is pure Python and uses NumPy."""

import runpy
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

KERNELS = Path(__file__).parent / "src" / "anchortm" / "kernels"


class KernelsHook(BuildHookInterface[Any]):
    """The hook that hatchling runs."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the library into the source tree, and say for which platform the wheel then is."""
        if self.target_name != "wheel":
            return
        kernels = runpy.run_path(str(KERNELS / "build.py"))
        library = KERNELS / kernels["LIBRARY"]
        reason = kernels["build"](library)
        if reason is not None:
            self.app.display_warning(f"the kernels were not compiled, NumPy is used instead: {reason}")
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
        build_data["pure_python"] = False
        build_data["artifacts"].append(str(library.relative_to(self.root)))
