"""The options of the commands that set things up, and of those about the command line itself."""

from __future__ import annotations

from .parser import Commands

SHELLS = ("bash", "zsh", "fish")


def add_commands(commands: Commands) -> None:
    """Add the commands to try things out with, and those about settings and trust."""
    demo = commands.add(
        "demo",
        "Put an invented team's memory into scopes of its own, to try things out on.",
        "cofio demo\ncofio demo --store demo-memory\ncofio demo --remove",
        run="demo:run_demo",
    )
    demo.add_argument("--remove", action="store_true", help="take it away again; what others wrote stays")
    config = commands.add(
        "config",
        "Show the settings in force and where each comes from, or a sample file.",
        "cofio config\ncofio config --sample > .cofio/cofio.toml",
        run="config:show_config",
    )
    config.add_argument("--sample", action="store_true", help="print a cofio.toml with every setting, as comments")
    verbs = commands.add_verbs(config, required=False)
    choose = verbs.add(
        "set",
        "Set what all servers of a memory on PostgreSQL have in common, from their next start on.",
        "cofio config set timezone Europe/Oslo --store postgresql://me@db.example/memory",
    )
    choose.add_argument("name", metavar="SETTING", help="the setting's name, as in cofio.toml")
    choose.add_argument("value", metavar="VALUE", help="what all servers are to have")
    clear = verbs.add(
        "unset",
        "Let the next server that starts say what all have in common.",
        "cofio config unset timezone --store postgresql://me@db.example/memory",
    )
    clear.add_argument("name", metavar="SETTING", help="the setting's name, as in cofio.toml")
    trust = commands.add(
        "trust",
        "Let the settings, prompts and vault of a memory that was not made here count, as they are now.",
        "cofio trust\ncofio trust --revoke",
        run="trust:change_trust",
    )
    trust.add_argument("--revoke", action="store_true", help="let them count no longer")


def add_about(commands: Commands) -> None:
    """Add the commands about the command line."""
    completion = commands.add(
        "completion",
        "Print what makes a shell complete commands, options, kinds, scopes and ids.",
        "cofio completion fish > ~/.config/fish/completions/cofio.fish\n"
        "echo 'eval \"$(cofio completion bash)\"' >> ~/.bashrc",
        run="about:print_completion",
    )
    completion.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"{', '.join(SHELLS[:-1])} or {SHELLS[-1]}")
    help_ = commands.add(
        "help",
        "Show the help of a command, or of all.",
        "cofio help search\ncofio help chat import",
        run="about:print_help",
    )
    help_.add_argument("topic", nargs="*", metavar="COMMAND", help="a command, and a verb of it")
    commands.add("version", "Show the version.", "cofio version", run="about:print_version")
