"""The commands, and what becomes of what goes wrong in them."""

from __future__ import annotations

import ast
import errno
import io
import os
import re
import shlex
import signal
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from walrow import __version__
from walrow.cli.catalog import catalog
from walrow.cli.decode import decode
from walrow.cli.inspect import inspect
from walrow.cli.terminal import say
from walrow.errors import Error, OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="walrow")
def cli() -> None:
    """PostgreSQL's logical replication stream as typed Arrow."""


cli.add_command(inspect)
cli.add_command(decode)
cli.add_command(catalog)


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code; no error leaves as a traceback."""
    signal.signal(signal.SIGTERM, _terminated)
    _reopen()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name may hold what the terminal's encoding does not.
        sys.stdout.reconfigure(errors="backslashreplace")
    code = 0
    try:
        if "_WALROW_COMPLETE" in os.environ:
            cli.main(prog_name="walrow")
        # Not by main, which has answers of its own to interrupts and closed pipes.
        words = list(sys.argv[1:] if arguments is None else arguments)
        with cli.make_context("walrow", words) as context:
            cli.invoke(context)
        sys.stdout.flush()
    except click.ClickException as error:
        code = _refuse(error)
    except click.exceptions.Exit as error:
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = 128 + signal.SIGINT
    except BrokenPipeError:
        # Whoever read the output wants no more of it.
        code = 128 + signal.SIGPIPE
    except OptionError as error:
        code = _fail(error, 2)
    except (Error, OSError) as error:
        code = _fail(error, 1)
    _flush()
    return code


def _terminated(_number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + signal.SIGTERM)


def _reopen() -> None:
    """Puts something in the place of standard streams that were closed before we began.

    Files opened later would get their numbers, and Python has None for them. Reading and
    writing these is the error that it is on a closed one; only what is said on stderr goes
    nowhere.
    """
    # In this order, as each takes the lowest number that is free: its own.
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_WRONLY), "r")
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def _refuse(error: click.ClickException) -> int:
    """Says what click does, but an argument's characters as `say` has them."""
    message = error.format_message()
    if isinstance(error, _HELP):
        lines = message.split("\n")
    else:
        context = getattr(error, "ctx", None)
        lines = [f"Error: {message}"]
        if context is not None:
            hint = f"Try '{context.command_path} --help' for help."
            lines = [*context.get_usage().split("\n"), hint, "", *lines]
    for line in lines:
        say(line)
    return error.exit_code


# Of a command without arguments; there since click 8.2.
_HELP: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())


def _fail(error: Exception, code: int) -> int:
    if isinstance(error, OSError) and error.strerror:
        file = f"{error.filename}: " if error.filename else ""
        if error.errno == errno.EBADF and not file:
            file = "stdin or stdout: "
        text = f"{file}{error.strerror}"
    else:
        text = "; ".join([_in_words(str(error)), *getattr(error, "__notes__", ())])
    say(f"walrow: {text}")
    return code


_TEXT = r'"(?:[^"\\]|\\.)*"'
_PAIR = re.compile(rf"\b(types|unrepresentable|session)={{({_TEXT}): ({_TEXT})}}")
_WORD = re.compile(rf"\b(profile|unrepresentable)=({_TEXT})")


def _in_words(text: str) -> str:
    """Puts the options that an error of the library names as the command takes them."""

    def pair(found: re.Match[str]) -> str:
        try:
            key, value = map(ast.literal_eval, found.group(2, 3))
        except (ValueError, SyntaxError):
            # It is part of a name.
            return found[0]
        return f"--{found[1]} {shlex.quote(f'{key}={value}')}"

    def word(found: re.Match[str]) -> str:
        return f"--{found[1]} {shlex.quote(ast.literal_eval(found[2]))}"

    return _WORD.sub(word, _PAIR.sub(pair, text))


def _flush() -> None:
    """What stdout still holds is lost: that it cannot be written is known by now."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
