"""Print the lowest version of each dependency and extra that the metadata allow, as pip's constraints."""

import re
import tomllib
from pathlib import Path


def requirements() -> list[str]:
    """Return what the package and its extras require, but for its own extras."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    stated = [project["dependencies"], *project["optional-dependencies"].values()]
    return sorted({text for texts in stated for text in texts if not text.startswith("anchortm[")})


def lowest() -> list[str]:
    """Return ``name==version`` for each ``name[extras]>=version``; a test sees to it that there is no other form."""
    return [re.sub(r"(\[.*\])?>=", "==", text) for text in requirements()]


if __name__ == "__main__":
    print("\n".join(lowest()))
