"""A dump of a store by PostgreSQL's own program, for pg_restore."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ...system.atomic_files import replace_path
from ...values.errors import Invalid, Unavailable

SUFFIX = ".dump"
"""How the name of a dump ends: what is called otherwise is a folder."""
_VERSION = re.compile(rb"\(PostgreSQL\) (\d+)")


def write_archive(target: Path, conninfo: str, schema: str, server: int) -> None:
    """Dump the store in a schema into a new file, in pg_dump's custom format. `server` is the server's version.

    Raises:
        Invalid: there is a file of that name.
        Unavailable: there is no pg_dump that could do it, or it fails.
    """
    if target.exists():
        raise Invalid("target", f"{target} exists; name a new file")
    program = _find_program(server // 10000)
    known = conninfo_to_dict(conninfo)
    if "sslpassword" in known:
        raise Unavailable("pg_dump has no other way to get sslpassword than for all to see: use a key without one")
    environ = dict(os.environ)
    if password := known.pop("password", None):
        environ["PGPASSWORD"] = str(password)  # not among the arguments, which every user of the machine can see
    address = make_conninfo("", **known)
    command = [program, "--format=custom", f'--schema="{schema}"', "--no-owner", "--no-privileges", "--no-password"]
    with replace_path(target) as file:
        done = subprocess.run(
            [*command, f"--dbname={address}"],
            env=environ, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.PIPE, check=False,
        )  # fmt: skip
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise Unavailable(f"pg_dump failed: {said[-1] if said else f'it ended with {done.returncode}'}")


def _find_program(needed: int) -> str:
    """The pg_dump that is on the PATH, if it knows a server of this version."""
    program = shutil.which("pg_dump")
    advice = f"install the client programs of PostgreSQL {needed}, or name a folder, which needs none of them"
    if program is None:
        raise Unavailable(f"pg_dump is not on the PATH: {advice}")
    said = subprocess.run([program, "--version"], capture_output=True, check=False).stdout
    found = _VERSION.search(said)
    if found is None or int(found[1]) < needed:
        version = int(found[1]) if found else "of an unknown version"
        raise Unavailable(f"{program} is {version}, and the server has PostgreSQL {needed}: {advice}")
    return program
