"""A PostgreSQL server of its own for a test, from the system's package, which listens on a socket in a folder alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest


def programs() -> Path:
    """Return the folder of initdb and postgres; skip the test if there is none."""
    found = [Path(one).parent for one in (shutil.which("initdb"),) if one]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
    found = [path for path in found if (path / "postgres").exists() and (path / "psql").exists()]
    if not found:
        pytest.skip("NOT TESTED: PostgreSQL is not installed (Debian's package is postgresql)")
    return found[0]


@contextmanager
def server():
    """Yield a function that runs SQL and returns rows as texts. The server refuses root: then it runs as nobody."""
    bin, user = programs(), "nobody" if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        if user is not None:
            shutil.chown(folder, user)
        data = Path(folder) / "data"

        def run(program, *arguments, **more):
            command = [str(bin / program), *arguments]
            environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": folder}
            return subprocess.run(
                command, check=True, capture_output=True, text=True, user=user, cwd=folder, env=environment, **more
            )

        run("initdb", "-D", str(data), "-U", "owner", "-A", "trust", "--no-sync", "-E", "UTF8")
        settings = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off -c shared_buffers=16MB"
        run("pg_ctl", "-D", str(data), "-w", "-l", str(Path(folder) / "log"), "-o", settings, "start")

        def query(text):
            told = run("psql", "-X", "-h", folder, "-U", "owner", "-d", "postgres", "-At", "-v", "ON_ERROR_STOP=1",
                       "-q", "-f", "-", input=text)  # fmt: skip
            return told.stdout.splitlines()

        try:
            yield query
        finally:
            run("pg_ctl", "-D", str(data), "-m", "immediate", "stop")
