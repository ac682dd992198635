"""The parser: help that fits the terminal, and suggestions for words that it does not know."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Generator, Sequence
from typing import Any, NoReturn

from anchortm.cli.models import MODELS
from anchortm.cli.terminal import paint, paragraph, terminal_width

__all__ = ["Parser", "jobs", "numbers", "on_lines", "pair"]

WORDS = {word: word for word in ("command", "design", "model", "rule", "shell")} | {"name": "data set"}


class Formatter(argparse.HelpFormatter):
    """Help with paragraphs and lists that break between words only."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=24, width=terminal_width())

    def _split_lines(self, text: str, width: int) -> list[str]:
        return self._wrapped(text, width, "").splitlines()

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else self._wrapped(text, width, indent)

    def _wrapped(self, text: str, width: int, indent: str) -> str:
        options: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
        return textwrap.fill(" ".join(text.split()), width, initial_indent=indent, subsequent_indent=indent, **options)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """Write -x, --xi XI,... instead of -x XI,..., --xi XI,..."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"

    def _iter_indented_subactions(self, action: argparse.Action) -> Generator[argparse.Action, None, None]:
        """Leave out the indentation of commands, which argparse forgets when it measures their names."""
        for each in super()._iter_indented_subactions(action):
            self._dedent()
            yield each
            self._indent()

    def start_section(self, heading: str | None) -> None:
        super().start_section(heading and paint(heading, "bold"))


class Parser(argparse.ArgumentParser):
    """A parser with short usage lines, examples, and suggestions for misspelled words."""

    examples: tuple[str, ...] = ()

    def __init__(self, **options: Any) -> None:
        options["formatter_class"] = Formatter
        super().__init__(**options)
        self.color = False  # newer versions of argparse write escapes of their own

    def format_usage(self) -> str:
        """Return the line on how to call the command: what must be given, and that there are options."""
        needed = [_placeholder(action) for action in self._actions if action.required or not action.option_strings]
        line = paragraph(" ".join([self.prog, *needed, "[options]"]), "usage: ", "           ")
        self.usage = line.removeprefix("usage: ")
        return super().format_usage()

    def format_help(self) -> str:
        """Return the help, with examples at its end."""
        self.format_usage()
        text = super().format_help()
        if self.examples:
            word = paint("examples" if len(self.examples) > 1 else "example", "bold")
            text += f"\n{word}:\n" + "\n".join(on_lines(line, "  ") for line in self.examples) + "\n"
        return text

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse options that do not exist, with the one that was meant, before others that are missing."""
        self._check_options(sys.argv[1:] if args is None else list(args))
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            if unknown[0].startswith("-"):
                self._refuse_option(unknown[0].split("=")[0])
            self.error(f"there is an argument too many: {unknown[0]!r}; put quotes around text with spaces")
        return found, unknown

    def _check_options(self, args: list[str]) -> None:
        """Refuse long options that do not exist: of a command, or of the program before its command."""
        for arg in args:
            if arg == "--" or (self.commands and not arg.startswith("-")):
                return
            word = arg.split("=")[0]
            if word.startswith("--") and " " not in arg and not any(each.startswith(word) for each in self._options):
                self._refuse_option(word)

    @property
    def commands(self) -> dict[str, Any]:
        """Return the parsers of commands by their names; none if this is the parser of a command."""
        found = (action.choices for action in self._actions if isinstance(action, argparse._SubParsersAction))
        return dict(next(found, {}))

    @property
    def _options(self) -> list[str]:
        return [option for action in self._actions for option in action.option_strings]

    def _refuse_option(self, word: str) -> NoReturn:
        """Say that there is no such option, which one was meant, or which commands have it."""
        from anchortm.cli.main import parser  # the parser of all commands

        others = [name for name, command in parser().commands.items() if word in command._options]
        if others:
            name = self.prog.split()[-1]
            listed = others[0] if len(others) == 1 else f"{', '.join(others[:-1])} and {others[-1]}"
            self.error(f"{name} has no option {word}; {listed} {'has' if len(others) == 1 else 'have'} it")
        self.error(f"there is no option {word}{_suggestion(word, self._options)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = list(action.choices or ())
        if choices and value not in choices:
            what = WORDS.get(action.dest, "value")
            listed = ", ".join(map(str, choices))
            hint = _suggestion(str(value), choices) or self._instead(action.dest, str(value))
            self.error(f"there is no {what} {value!r}{hint or '.'} Choose from {listed}")

    def _instead(self, what: str, value: str) -> str:
        """Return what to write in place of a word that is known from elsewhere."""
        if what == "command" and value.casefold() == "help":
            return f": write {self.prog} --help, or --help after a command."
        if what == "model":  # a name of Python
            classes = {cls: name for name, (cls, _) in reversed(MODELS.items()) if cls != "AnchorGLM"}
            near = _suggestion(value, list(classes)).removeprefix(": did you mean ").removesuffix("?")
            return f": did you mean {classes[near]}?" if near else ""
        return ""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and how to get help, and exit with code 2."""
        message = message.replace("the following arguments are required", "these are missing")
        text = f"error: {message}"
        if getattr(sys.stderr, "isatty", lambda: False)():
            text = paragraph(text, hanging="  ")
        self._print_message(self.format_usage(), sys.stderr)
        self._print_message(f"{paint(text[:6], 'red')}{text[6:]}\n", sys.stderr)
        self._print_message(f"{self.prog} --help says more\n", sys.stderr)
        self.exit(2)


def _placeholder(action: argparse.Action) -> str:
    """Return how a usage line names an argument."""
    value = action.metavar or action.dest.upper()
    if action.option_strings:
        return f"{action.option_strings[0]} {value}"
    return f"[{value} ...]" if action.nargs == "*" else str(value)


def _suggestion(word: str, known: Sequence[Any]) -> str:
    """Return a question with the known word that is nearest to this one, if one is near."""
    import difflib

    names = {str(name).casefold(): str(name) for name in known}
    near = [name for name in names if len(word) > 1 and name.startswith(word.casefold())]
    near = near or difflib.get_close_matches(word.casefold(), names, 1, 0.6)
    return f": did you mean {names[near[0]]}?" if near else ""


def on_lines(command: str, indent: str = "") -> str:
    """Return a command on as many lines as it needs, continued by backslashes before options."""
    width, parts = terminal_width(), re.split(r" (?=-)", command)
    lines = [indent + parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + len(part) + 3 > width:
            lines[-1] += " \\"
            lines.append(f"{indent}    {part}")
        else:
            lines[-1] += f" {part}"
    return "\n".join(lines)


def numbers(text: str) -> list[float]:
    """Return numbers that are joined by commas."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} should be numbers joined by commas, such as 0,1,10") from None


def jobs(text: str) -> int:
    """Return a number of processes."""
    if not text.lstrip("-").isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} should be a number of processes, or -1 for all cores")
    return int(text)


def pair(text: str) -> tuple[float, float]:
    """Return two numbers that are joined by a comma."""
    values = numbers(text)
    if len(values) != 2:
        raise argparse.ArgumentTypeError(f"{text!r} should be two numbers joined by a comma, such as 0,100")
    return values[0], values[1]
