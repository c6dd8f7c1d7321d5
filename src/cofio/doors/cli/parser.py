"""How the words of a command line are read, and what is said of wrong usage.

Nothing of the engine is loaded before a value needs it, so that `cofio --help` answers at once.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from ...config.suggestions import refuse, suggest
from ...text.display import neutralise_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import NoReturn

ALLOW_SECRETS = "take in what looks like a key, a token or a password, too"
ALLOW_UNMASKED = "take in what looks like a key, a token or a password as it is, rather than masked"
_MISUSE = "{0}: {1}\nTry `{0} --help`.\n"
_STORE = (
    "the memory's folder, or postgresql://… (default: COFIO_STORE or AGENT_STORE_PATH, else the nearest .cofio upwards,"
    " else ./.cofio)"
)


class Parser(argparse.ArgumentParser):
    """A parser that answers wrong usage with one line and where to read more, and takes no abbreviations."""

    def __init__(self, *, example: str = "", **options: object) -> None:
        if example:
            options["epilog"] = "example:\n" + "\n".join(f"  {line}" for line in example.splitlines())
        options["formatter_class"] = argparse.RawDescriptionHelpFormatter
        super().__init__(allow_abbrev=False, **options)  # type: ignore[arg-type]  # argparse's own options

    def parse_args(  # type: ignore[override]  # argparse's is generic in the namespace, which is never given here
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """Read the words of a command; what is too much is told by the command that was to take it."""
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            reader = self.find(parsed)
            reader.error(reader.describe_unknown(unknown[0]))
        return parsed

    def find(self, parsed: argparse.Namespace) -> Parser:
        """The parser of the command, and of its verb, that was given."""
        reader = self
        for action in reader.commands():
            choice = vars(parsed).get(action.dest)
            if choice in action.choices:
                return action.choices[choice].find(parsed)
        return reader

    def commands(self) -> Iterator[argparse._SubParsersAction[Parser]]:
        """What the parser's commands, or a command's verbs, hang on, if there are any."""
        return (action for action in self._actions if isinstance(action, argparse._SubParsersAction))

    def describe_unknown(self, word: str) -> str:
        """That a word is an option that there is not, or one argument too many."""
        if not word.startswith("-"):
            return f"{word} is too much; quote a text that has spaces in it"
        option = word.partition("=")[0]
        suggestion = suggest(option, self._option_string_actions)
        return f"there is no option {option}{f'; did you mean {suggestion}?' if suggestion else ''}"

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is None or value in action.choices or value == []:  # the last when none is given of many
            return
        if not isinstance(action, argparse._SubParsersAction):
            raise argparse.ArgumentError(action, refuse(str(value), "known", map(str, action.choices)))
        what = "a command" if action.dest == "command" else f"a verb of `{self.prog}`"
        raise argparse.ArgumentError(None, refuse(str(value), what, action.choices))

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the command, and end with exit code 2."""
        if message.endswith("required: VERB"):
            message = f"say what to do: {', '.join(verb for action in self.commands() for verb in action.choices)}"
        sys.stderr.write(_MISUSE.format(self.prog, neutralise_line(message)))
        raise SystemExit(2)

    def add_common_options(self, *, default: object = None) -> None:
        """Add the options that every command takes."""
        self.add_argument("--store", metavar="PATH", default=default, help=_STORE)
        self.add_argument("--json", action="store_true", default=default or False, help="print JSON, for programs")


class Commands:
    """The commands of a parser, or the verbs of a command; each takes the common options, too."""

    def __init__(self, parser: Parser) -> None:
        self._common = Parser(add_help=False)
        self._common.add_common_options(default=argparse.SUPPRESS)
        self._parsers = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND", parser_class=Parser)

    def add(self, name: str, help: str, example: str, *, run: str) -> Parser:
        """Add a command; `run` is the function that does it, as `module:name`, which is not loaded before that."""
        parser = self._parsers.add_parser(name, help=help, description=help, example=example, parents=[self._common])
        parser.set_defaults(run=run)
        return parser

    def add_verbs(self, command: Parser, *, required: bool = True) -> Verbs:
        """Give a command verbs."""
        return Verbs(command, self._common, required=required)


class Verbs:
    """The verbs of a command."""

    def __init__(self, command: Parser, common: Parser, *, required: bool) -> None:
        self._common = common
        self._parsers = command.add_subparsers(dest="verb", metavar="VERB", parser_class=Parser, required=required)

    def add(self, name: str, help: str, example: str) -> Parser:
        """Add a verb."""
        return self._parsers.add_parser(name, help=help, description=help, example=example, parents=[self._common])


def report_misuse(args: argparse.Namespace, sentence: str) -> int:
    """Say what is wrong with a command as its parser would; the exit code."""
    verb = vars(args).get("verb")
    sys.stderr.write(_MISUSE.format(f"cofio {args.command}{f' {verb}' if verb else ''}", neutralise_line(sentence)))
    return 2
