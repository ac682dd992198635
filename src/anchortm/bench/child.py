"""Run one function and print JSON: ``python -m anchortm.bench.child '["module:function", ...]'``."""

from __future__ import annotations

import json
import sys

from anchortm.bench.engine import first_line, named

__all__ = ["main"]


def main() -> None:
    """Call the function and print its result or its error."""
    name, *arguments = json.loads(sys.argv[1])
    try:
        found = named(name)(*arguments)
    except Exception as error:
        found = {"error": first_line(error)}
    print(f"\n{json.dumps(found)}")


if __name__ == "__main__":
    main()
