"""The commands that open the memory to other programs, and tell those programs of it.

Each door is imported by the command that needs it: the MCP SDK alone costs more than a second.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from dataclasses import replace
from importlib.util import find_spec

from ...config.address import StoreAddress
from ...config.settings import Settings
from ...engine.opening import load_settings, open_shared_values, resolve_store
from ...values.errors import Unavailable

PACKAGES = ("uvicorn", "mcp", "starlette", "httptools", "prometheus_client", "python_multipart", "watchfiles")
"""What serving needs besides what a bare install brings."""


def serve_mcp(args: Namespace) -> int:
    """Serve MCP on stdin and stdout, or print or write a client's configuration."""
    if args.verb == "config":
        from .clients import configure_client

        return configure_client(args)
    from ..mcp.stdio import run

    address = resolve_store(args.store)
    try:
        settings = load_settings(address)
    except Unavailable:  # a database that is away for a moment: the calls that need it say so, and try again
        settings = Settings.load(address.home, shared={})
    if args.structured:
        settings = replace(settings, structured=True)
    return run(address, settings, allow_secrets=args.allow_secrets or settings.allow_secrets)


def serve_http(args: Namespace) -> int:
    """Serve every HTTP door until stopped."""
    _check_extra()
    from ...server.options import ServerOptions
    from ...server.parent import choose_workers, run_server  # which load nothing of what the processes load

    address = resolve_store(args.store)
    settings = load_settings(address)
    workers = choose_workers(settings.workers if args.workers is None else args.workers)
    options = ServerOptions(
        address=address,
        settings=replace(settings, allow_secrets=args.allow_secrets or settings.allow_secrets),
        host=args.host or settings.host,
        port=settings.port if args.port is None else args.port,
        names=tuple(args.allow_host),
        origins=tuple(args.allow_origin),
    )
    with open_shared_values(address) as shared:
        if shared is not None:
            from ...engine.agreement import agree

            agree(shared, options.settings)
    try:
        run_server(options, workers, ready=lambda url: _announce(args, address, url))
    except KeyboardInterrupt:  # as uvicorn ends after Ctrl-C, once all is closed
        _say_goodbye()
        raise
    _say_goodbye()
    return 0


def _check_extra() -> None:
    """Raise Unavailable if a package is missing that serving needs."""
    missing = next((name for name in PACKAGES if find_spec(name) is None), None)
    if missing is not None:
        from ...config.installation import install_command  # not before it is needed: an agent waits for `cofio mcp`

        raise Unavailable(
            f"serving over HTTP needs the extra `server` ({missing} is missing): {install_command('server')}"
        )


def _say_goodbye() -> None:
    from ...http.logs import flush_log, say

    say("stopped; all that was written is kept. Goodbye")
    flush_log()


def _announce(args: Namespace, address: StoreAddress, url: str) -> None:
    from .terminal import choose_output, note

    rest = f"{url}/api/v2/memory"
    choose_output(as_json=args.json).print_done(f"{url}/mcp", url=url, mcp=f"{url}/mcp", rest=rest, store=str(address))
    sys.stdout.flush()
    note(f"open {url}/ in a browser to see the memory in {address}")
    note(f"it is served over MCP at the address above, and over REST under {rest}; Ctrl-C ends it")


def serve_animus(args: Namespace) -> int:
    """Be the Animus plugin, or print its manifest."""
    from ..animus import start

    return start(manifest=args.manifest, error_codes=args.error_codes, store=args.store)
