"""The whole command line: every command with its options, each from the module that stands beside its commands."""

from __future__ import annotations

from ... import __version__
from . import (
    file_options,
    hook_options,
    intake_options,
    maintenance_options,
    record_options,
    server_options,
    setup_options,
)
from .parser import Commands, Parser


def build_parser() -> Parser:
    """The parser of the whole command line."""
    top = Parser(
        prog="cofio",
        description="One durable, searchable memory for every agent, in a folder.",
        example='cofio add "The deploy runs on Fridays." --tag ops\ncofio search when do we deploy',
    )
    top.add_argument("--version", action="version", version=f"cofio {__version__}")
    top.add_common_options()
    commands = Commands(top)
    # In the order of `cofio --help`.
    record_options.add_commands(commands)
    maintenance_options.add_commands(commands)
    intake_options.add_commands(commands)
    file_options.add_vault(commands)
    server_options.add_commands(commands)
    file_options.add_files(commands)
    hook_options.add_commands(commands)
    setup_options.add_commands(commands)
    maintenance_options.add_model(commands)
    setup_options.add_about(commands)
    return top
