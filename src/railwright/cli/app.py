# SPDX-License-Identifier: GPL-3.0-or-later
"""The typer application: the verbs in groups, and the switches that all of them take."""

from __future__ import annotations

from types import ModuleType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from railwright import __version__
from railwright.cli import (
    apply,
    artifacts,
    bench,
    container,
    drift,
    env,
    explain,
    facts,
    init,
    lab,
    lint,
    nccl,
    plan,
    remediate,
    report,
    rollback,
    switch,
    upgrade,
    validate,
)
from railwright.cli.options import settings
from railwright.exitcodes import InputError

ABOUT = "Provision, prove and keep RDMA GPU nodes: InfiniBand, RoCE v2 and Alibaba eRDMA."
# The top help: every verb in one line of 80 columns. A module with `build` is a group of verbs.
VERBS: dict[str, tuple[tuple[ModuleType, str], ...]] = {
    "Change": (
        (plan, "show every change that apply would make; change nothing"),
        (apply, "make these changes, one transaction a node"),
        (remediate, "fix what has drifted, batch by batch"),
        (upgrade, "move to another kernel, stack, driver, NCCL; no job dies"),
        (rollback, "bring nodes back to how they were before a run"),
    ),
    "Judge": (
        (drift, "what differs from the inventory; only reads"),
        (validate, "links, GIDs, pings, perftest; short traffic on the rails"),
        (bench, "nccl-tests over all GPUs; the nodes are busy"),
    ),
    "Prepare": (
        (init, "write a commented inventory"),
        (lint, "check an inventory; no node is contacted"),
        (artifacts, "list everything that is downloaded, to mirror it"),
        (lab, "virtual machines with Soft-RoCE: up, status, ssh, down"),
    ),
    "Evidence": (
        (explain, "why a node gets what it gets, by one name"),
        (facts, "what is observed on each node"),
        (report, "the last run as JSON, JUnit, Markdown and plots"),
    ),
    "Tools": (
        (nccl, "explain a variable, lint settings, parse nccl-tests"),
        (switch, "hints: the switch side of the QoS profile"),
        (container, "flags: how a container reaches RDMA devices and GPUs"),
        (env, "make: the Python environment with torch on every node"),
    ),
}
FOOTER = """\
Options: --version, --debug, --install-completion. Help: railwright VERB --help
Exit codes: 0 ok, 1 failed, 2 drift, 3 a node unreachable, 64 bad usage or input"""
MOVED = {"switch-hints": "switch hints", "container-flags": "container flags", "ai-environment": "env make"}


class Verbs(TyperGroup):
    """The top of the command line: help in groups, and old names that name the new ones."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        rows = [f"Usage: {ctx.command_path} [OPTIONS] VERB ...", ABOUT]
        for title, verbs in VERBS.items():
            rows += [f"{'' if index else title:<10}{name_of(verb):<11}{text}" for index, (verb, text) in enumerate(verbs)]
        formatter.write("\n".join([*rows, FOOTER]))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in MOVED:
            raise InputError(f"{args[0]} has another name now; allowed: railwright {MOVED[args[0]]}")
        if args[:2] == ["explain", "profile"] and args[2:] and not args[2].startswith("-"):
            raise InputError(f"explain takes one name; allowed: railwright explain {args[2]}")
        return super().resolve_command(ctx, args)


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"railwright {__version__}")
        raise typer.Exit


def set_debug(wanted: bool) -> None:
    settings.debug = settings.debug or wanted


Version = Annotated[bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and exit.")]
DEBUG = "Show Ansible's own output, without its colours, and, after an error, the traceback."
Debug = Annotated[bool, typer.Option("--debug", callback=set_debug, help=DEBUG)]


def root(version: Version = False, debug: Debug = False) -> None:
    """Takes the switches that stand before the verb."""
    del version, debug  # their callbacks have done the work


def build() -> typer.Typer:
    app = typer.Typer(
        name="railwright",
        cls=Verbs,
        help=ABOUT,
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(root)
    for verb in (verb for verbs in VERBS.values() for verb, _text in verbs):
        if hasattr(verb, "build"):
            app.add_typer(verb.build(), name=name_of(verb))
        else:
            app.command(name_of(verb), help=verb.HELP)(verb.command)
    return app


def name_of(verb: ModuleType) -> str:
    return verb.__name__.rpartition(".")[2]


def command() -> Any:
    """The click command of the application, with --debug at every level: people add it at the end of the line."""
    top: Any = typer.main.get_command(build())
    debug = next(option for option in top.params if option.name == "debug")
    debug.expose_value = False  # its callback does the work; a verb need not take it
    _add(debug, top.commands)
    return top


def _add(option: Any, commands: dict[str, Any]) -> None:
    for child in commands.values():
        child.params.append(option)
        _add(option, getattr(child, "commands", {}))
