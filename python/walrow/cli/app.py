"""The commands and their error handling."""

from __future__ import annotations

import errno
import io
import os
import re
import shlex
import signal
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn

import click

from walrow import __version__
from walrow._late import explained
from walrow._secrets import is_secret, shown
from walrow.cli.arguments import ByName, Commands
from walrow.cli.terminal import say
from walrow.errors import (
    Error,
    OptionError,
    Remedy,
    ReplicationError,
    UnfinishedError,
)

#: The commands. Each has a module of its name.
_COMMANDS = (
    *(
        "apply",
        "backup",
        "catalog",
        "decode",
        "follow",
        "init",
        "inspect",
        "load",
        "log",
    ),
    *("preflight", "receive", "run", "seal", "slot", "state", "status", "tables"),
)


@click.group(
    cls=Commands,
    commands=ByName(_COMMANDS),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="walrow")
def cli() -> None:
    """PostgreSQL's logical replication stream as typed Arrow."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code. Never shows a traceback for errors."""
    for number in _TERMINATED:
        # nohup ignores SIGHUP, and that stays.
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _terminated)
    _reopen()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name may contain characters that the terminal's encoding lacks.
        sys.stdout.reconfigure(errors="backslashreplace")
    code = 0
    context: click.Context | None = None
    words = list(sys.argv[1:] if arguments is None else arguments)
    fail = partial(_fail, words)
    try:
        if "_WALROW_COMPLETE" in os.environ:
            cli.main(prog_name="walrow")
        # Not cli.main, which handles interrupts and closed pipes itself.
        with cli.make_context("walrow", [*words]) as context:
            cli.invoke(context)
        sys.stdout.flush()
    except click.ClickException as error:
        code = _refuse(words, error)
    except click.exceptions.Exit as error:
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = 128 + signal.SIGINT
    except BrokenPipeError:
        # The reader of the output has closed it.
        code = 128 + signal.SIGPIPE
    except (OptionError, ImportError) as error:
        # The latter says which package an option needs.
        reason = explained(error) if isinstance(error, ImportError) else error
        code = fail(reason, 2, context)
    except UnfinishedError as error:
        code = fail(error, 3, context)
    except ReplicationError as error:
        # Otherwise it is the error of a command that the server refused.
        code = fail(error, 1 if error.offset is None else 4, context)
    except (Error, OSError) as error:
        code = fail(error, 1, context)
    _flush()
    return code


def _terminated(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)


# SIGHUP: the terminal was closed. Windows does not have it.
_TERMINATED = [signal.SIGTERM, *filter(None, [getattr(signal, "SIGHUP", None)])]


def _reopen() -> None:
    """Replaces standard streams that were closed before the process started.

    Python sets them to None, and files opened later would get their descriptors.
    Reading and writing the replacements fails, as on a closed stream. Only text for
    stderr is discarded.
    """
    # The order matters: each takes the lowest free descriptor, its own.
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_WRONLY), "r")
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def _refuse(words: Sequence[str], error: click.ClickException) -> int:
    """Prints click's message, with arguments escaped as in `say`."""
    message = _private(words, error.format_message())
    if isinstance(error, _HELP):
        lines = message.split("\n")
    else:
        context = getattr(error, "ctx", None)
        command = "walrow" if context is None else context.command_path
        end = "" if message.endswith((".", "?", "!")) else "."
        lines = [f"{command}: {message}{end} See {command} --help."]
    for line in lines:
        say(line)
    return error.exit_code


# Raised for a command without arguments, since click 8.2.
_HELP: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())


def _private(words: Sequence[str], message: str) -> str:
    """Replaces connection strings among the arguments, and credentials in URLs.

    A message may quote an argument that was given in the wrong place.
    """
    for word in words:
        _, _, value = word.partition("=")
        for given in (word, value if word.startswith("-") else ""):
            # An option may be `--type total=string`.
            pair = _PAIR.fullmatch(given)
            if pair and not is_secret(pair[1]):
                continue
            for form in (given, repr(given)[1:-1], os.path.normpath(given)):
                if form in message and shown(given) != given:
                    message = message.replace(form, shown(given))
    return message


_PAIR = re.compile(r"(\w+)=[^\s@:?]*")


def _fail(
    words: Sequence[str],
    error: Exception,
    code: int,
    context: click.Context | None,
) -> int:
    if isinstance(error, OSError) and error.strerror:
        file = f"{error.filename}: " if error.filename else ""
        if error.errno == errno.EBADF and not file:
            file = "stdin or stdout: "
        text = f"{file}{error.strerror}"
    else:
        spell = partial(_spelled, _parameters(context))
        text = error.spelled(spell) if isinstance(error, Error) else str(error)
        text = "; ".join([text, *getattr(error, "__notes__", ())])
    say(f"walrow: {_private(words, text)}")
    return code


def _parameters(context: click.Context | None) -> dict[str, click.Parameter]:
    """The parameters of the running command. Those of `walrow decode` if it is not known."""
    name = context.invoked_subcommand if context is not None else None
    command = cli.commands.get(name or "") or cli.commands["decode"]
    commands = (
        command.commands.values() if isinstance(command, click.Group) else [command]
    )
    return {
        parameter.name or "": parameter
        for each in commands
        for parameter in each.params
    }


def _spelled(parameters: dict[str, click.Parameter], remedy: Remedy) -> str | None:
    """Writes a remedy as an option of the command, if it has it, or as a step."""
    if remedy.is_step:
        return _step(remedy)
    if remedy.option == "table" and isinstance(remedy.value, tuple):
        # The command line has no words for names with a dot.
        name = ".".join(remedy.value)
        return None if name.count(".") > 1 else f"--table {shlex.quote(name)}"
    if remedy.option not in parameters:
        from walrow.cli.decode import INSTEAD

        return INSTEAD.get(remedy.option)
    parameter = parameters[remedy.option]
    name = parameter.opts[0]
    if remedy.value is None:
        value = parameter.metavar or parameter.type.name.upper()
        return f"another {name}" if remedy.code is None else f"{name} {value}"
    if remedy.value is True:
        return name
    key = "" if remedy.key is None else f"{remedy.key}="
    return f"{name} {shlex.quote(f'{key}{remedy.value}')}"


def _step(remedy: Remedy) -> str | None:
    """Writes a step in words, or as another command. None if there is no such command."""
    if remedy.option == "forget" and remedy.key is not None:
        return f"forget it with walrow log forget LOG {shlex.quote(remedy.key)}"
    if remedy.option == "marks":
        return "see walrow status LOG"
    return None if remedy.option == "register" else str(remedy)


def _flush() -> None:
    """Flushes stdout. If that fails, the rest is lost: the error was reported before."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
