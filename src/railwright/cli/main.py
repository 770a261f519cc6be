# SPDX-License-Identifier: GPL-3.0-or-later
"""The typer application, its verbs in groups, and the entry point: what went wrong is one line on stderr and an exit code.

Only expected failures are caught. A mistake of ours keeps its traceback: hiding it would help nobody.
"""

import importlib
import io
import os
import re
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ansible_collections.railwright.rdma.plugins.module_utils.formats.masking import forget
from railwright import __version__
from railwright.cli import ansible_options
from railwright.cli.help import Verb
from railwright.cli.options import settings
from railwright.exitcodes import CommandError, ExitCode, InputError
from railwright.given import Given, given
from railwright.report.text import printable, printable_lines

ABOUT = "Provision, prove and keep RDMA GPU nodes: InfiniBand, RoCE v2 and Alibaba eRDMA."
# The top help: every verb, which is a file here, in one line of 80 columns. A file with VERBS of its own is a group of them.
VERBS: dict[str, tuple[tuple[str, str], ...]] = {
    "Change": (
        ("plan", "show every change that apply would make; change nothing"),
        ("apply", "make these changes, one transaction a node"),
        ("remediate", "fix what has drifted, batch by batch"),
        ("upgrade", "move to another kernel, stack, driver, NCCL; no job dies"),
        ("rollback", "bring nodes back to how they were before a run"),
    ),
    "Judge": (
        ("check", "is this node, or HOST, healthy? No inventory; only reads"),
        ("drift", "what differs from the inventory; only reads"),
        ("validate", "links, GIDs, pings, perftest; short traffic on the rails"),
        ("bench", "nccl-tests over all GPUs; the nodes are busy"),
        ("isolate", "which node, rail, path or switch is slow; busies rails"),
        ("agent", "what nodes' agents say"),
        ("top", "rails and GPUs, live"),
    ),
    "Prepare": (
        ("init", "write an inventory"),
        ("lint", "check an inventory"),
        ("artifacts", "list everything that is downloaded, to mirror it"),
        ("lab", "virtual machines with Soft-RoCE: up, status, ssh, down"),
    ),
    "Evidence": (
        ("explain", "why a node gets what it gets, by one name"),
        ("diagnose", "a job hangs: which rank everybody waits for; only reads"),
        ("facts", "what nodes show"),
        ("report", "the last run as files"),
        ("bundle", "a node as an archive"),
    ),
    "Tools": (
        ("nccl", "explain a variable, lint settings, judge a log"),
        ("switch", "hints; read exports"),
        ("cabling", "is a rail in its port"),
        ("container", "flags for a container"),
        ("env", "make: torch and Python"),
    ),
}
FILES = {name: importlib.import_module(f"railwright.cli.{name}") for verbs in VERBS.values() for name, _text in verbs}
MOVED = {"switch-hints": ("switch hints",), "container-flags": ("container flags",), "ai-environment": ("env make",),
         "watch": ("agent status", "agent drain"), "events": ("agent events", "agent ack")}


HALF = 35  # columns of a short line


def paired(lines: Sequence[str]) -> list[str]:
    """Two short lines that follow each other stand beside each other: all of it is one screen."""
    found: list[str] = []
    for line in lines:
        if found and max(len(found[-1]), len(line)) <= HALF - 2:
            found[-1] = f"{found[-1]:<{HALF}}{line}"
        else:
            found.append(line)
    return found


class Verbs(TyperGroup):
    """The top of the command line: help in groups, and old names that name the new ones."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        rows = [f"Usage: {ctx.command_path} [--version|--debug|--install-completion] VERB [--help] ...", ABOUT]
        for title, verbs in VERBS.items():
            lines = paired([f"{verb:<11}{text}" for verb, text in verbs])
            rows += [f"{'' if index else title:<10}{line}" for index, line in enumerate(lines)]
        formatter.write("\n".join(rows))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in MOVED:
            raise InputError(f"{args[0]} has another name now; allowed: {' or '.join(f'railwright {name}' for name in MOVED[args[0]])}")
        return super().resolve_command(ctx, args)


def show_version(context: typer.Context, wanted: bool) -> None:
    if not wanted:
        return
    typer.echo(f"railwright {__version__}")
    if context.params.get("verbose"):
        from ansible_collections.railwright.rdma.plugins.plugin_utils.tables.ages import comparisons

        typer.echo("tables, by the day on which each was last compared with its sources:")
        for row in comparisons():
            typer.echo(f"{row.compared} {row.table}: {row.against}")
    raise typer.Exit


def set_debug(wanted: bool) -> None:
    settings.debug = settings.debug or wanted


def without_colour(wanted: bool) -> None:
    if wanted:
        os.environ["NO_COLOR"] = "1"  # for whom we start, too


Version = Annotated[bool, typer.Option("--version", callback=show_version, help="Print the version and exit.")]
VERBOSE = "With --version: also when each table of facts was last compared, and with what."
Verbose = Annotated[bool, typer.Option("--verbose", is_eager=True, help=VERBOSE)]  # eager: before the callback of --version
DEBUG = "Show Ansible's own output, without its colours, and, after an error, the traceback."
Debug = Annotated[bool, typer.Option("--debug", callback=set_debug, help=DEBUG)]
NO_COLOUR = "No colours, as with NO_COLOR in the environment."
NoColour = Annotated[bool, typer.Option("--no-color", callback=without_colour, is_eager=True, help=NO_COLOUR)]


def root(version: Version = False, verbose: Verbose = False, debug: Debug = False, no_color: NoColour = False) -> None:
    """Takes the switches that stand before the verb."""
    del version, debug, no_color  # their callbacks have done the work
    if verbose:
        raise InputError("--verbose is an option of --version; allowed: railwright --version --verbose, railwright --debug VERB")


def build() -> typer.Typer:
    app = typer.Typer(
        name="railwright", cls=Verbs, help=ABOUT, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )  # fmt: skip
    app.callback()(root)
    for name, verb in FILES.items():
        if hasattr(verb, "VERBS"):
            group = typer.Typer(help=verb.ABOUT, no_args_is_help=True, rich_markup_mode=None, subcommand_metavar="VERB ...")
            for inner, (function, text) in verb.VERBS.items():
                group.command(inner, help=text, short_help=text.partition("\n\n")[0], cls=Verb)(function)
            app.add_typer(group, name=name)
        else:
            app.command(name, help=verb.HELP, cls=Verb)(verb.command)
    return app


def command() -> Any:
    """The click command of the application, with --debug and --no-color at every level: people add them at the end of the line."""
    top: Any = typer.main.get_command(build())
    everywhere = [option for option in top.params if option.name in ("debug", "no_color")]
    for option in everywhere:
        option.expose_value = False  # its callback does the work; a verb need not take it
    _add(everywhere, top.commands)
    return top


def _add(everywhere: list[Any], commands: dict[str, Any], above: str = "") -> None:
    for name, child in commands.items():
        ansible_options.add(child, above + name)
        # Those that are wanted most stand first: how a node is reached, colours and --debug are the last.
        child.params = sorted(child.params, key=lambda param: param.name == "transport") + everywhere
        _add(everywhere, getattr(child, "commands", {}), f"{above}{name} ")


# typer carries its own copy of click from some version on; the base of its public exceptions is right in both cases.
USAGE_ERRORS: tuple[type[Exception], ...] = tuple(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def main(argv: Sequence[str] | None = None) -> None:
    """What the console script calls."""
    _open_closed_streams()
    sys.exit(run(argv))


def _open_closed_streams() -> None:
    """A stream that the caller closed (``>&-``) is the null device: its number would else go to the next file that is opened."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


def run(argv: Sequence[str] | None = None) -> int:
    settings.debug = settings.one_line = False
    vars(given).update(vars(Given()))
    forget()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets its escape, never a traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        _refuse_empty(arguments)
        code = command().main(args=ansible_options.ours(arguments), prog_name="railwright", standalone_mode=False)
    except USAGE_ERRORS as error:
        return _usage(error)
    except CommandError as error:
        return _failed(str(error), error.code)
    except (KeyboardInterrupt, typer.Abort):
        return _stopped()
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _failed(f"{where}{error.strerror or error}", ExitCode.FAILED)
    if code == ExitCode.INTERRUPTED:
        return _stopped()
    return code if isinstance(code, int) else ExitCode.OK


def _refuse_empty(arguments: list[str]) -> None:
    """`--limit "$NODE"` with NODE unset must not mean every node, and `-i ""` not this directory."""
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    for place, argument in enumerate(ours):
        option = ours[place - 1] if place and not argument else argument.rstrip("=") if re.fullmatch(r"--[a-z-]+=", argument) else None
        # No class at all is something that --consent can say.
        if option is not None and option != "--consent":
            raise InputError(f"{option}: the value is empty; is a shell variable not set?")


def _usage(error: Exception) -> int:
    """click and typer use 2 here, which means drift with us."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        text = str(getattr(error, "message", "")).strip()
        if text:  # empty where rich has printed the help already
            typer.echo(text, err=True)
        return ExitCode.USAGE
    # Newlines and tabs are click's layout of choices, "Value error, " is pydantic's; one plain line says the same.
    text = " ".join(getattr(error, "format_message", error.__str__)().split()).replace("Value error, ", "")
    hint = f" (see: {context.command_path} --help)" if context is not None else ""
    return _failed(text.rstrip(".") + hint, ExitCode.USAGE)


def _failed(text: str, code: ExitCode) -> int:
    if settings.debug:
        typer.echo(printable_lines(traceback.format_exc()), err=True, nl=False)
    typer.echo(f"railwright: error: {printable(text)}", err=True)
    return code


def _stopped() -> int:
    typer.echo("railwright: stopped", err=True)
    return ExitCode.INTERRUPTED
