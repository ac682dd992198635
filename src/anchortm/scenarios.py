"""The four simulation scenarios of the paper, as printed, as published in code, and as recommended.

The code is in ``anchortm.simulate.scenarios``; import the names from here.
"""

from anchortm.simulate.scenarios import NAMES, Run, Scenario, iv1, iv2, la, nla, scenario

__all__ = ["NAMES", "Run", "Scenario", "iv1", "iv2", "la", "nla", "scenario"]


def __dir__() -> list[str]:
    return sorted(__all__)
