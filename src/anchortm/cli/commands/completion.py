"""Print a completion script."""

from __future__ import annotations

from typing import Any

from anchortm.exceptions import InputError

__all__ = ["EXAMPLES", "add", "run"]

EXAMPLES = ("anchortm completion bash > anchortm-completion.bash",)


def add(command: Any) -> None:
    """Add the arguments."""
    command.add_argument("shell", choices=["bash", "zsh", "tcsh"], metavar="SHELL", help="bash, zsh or tcsh")


def run(options: Any) -> None:
    """Print the completion script of a shell."""
    try:
        import shtab
    except ImportError:
        raise InputError("completion scripts need shtab: pip install 'anchortm[cli]'") from None
    from anchortm.cli.main import parser

    print(shtab.complete(parser(), options.shell))
