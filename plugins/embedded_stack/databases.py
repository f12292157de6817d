"""The two databases: Airflow's and the ledger's, each with a role of its own that may not enter the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from embedded_stack.errors import StackError
from embedded_stack.secret_store import Secrets

AIRFLOW, LEDGER = "airflow", "phalanx"


@dataclass(frozen=True, slots=True)
class Server:
    """Where a PostgreSQL server is reached, without credentials; `options` are libpq's (sslmode and the like)."""

    host: str
    port: int
    options: Mapping[str, str]

    def url(self, scheme: str, role: str, password: str) -> str:
        """The URL of the role's own database."""
        query = f"?{urlencode(self.options)}" if self.options else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{role}:{quote(password, safe='')}@{host}:{self.port}/{role}{query}"

    def as_json(self) -> dict[str, Any]:
        return {"host": self.host, "port": self.port, "options": dict(self.options)}

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Server:
        return cls(str(content["host"]), int(content["port"]), dict(content["options"]))


def server_of(url: str) -> Server:
    """The server in an administrator's URL (SQLAlchemy's `+driver` is allowed).

    Raises:
        StackError: it is no PostgreSQL URL over TCP.
    """
    try:
        found = conninfo_to_dict(plain(url))
    except psycopg.ProgrammingError as error:
        raise StackError(f"--database-url is no PostgreSQL URL: {str(error).strip()}") from None
    host = str(found.pop("host", "localhost"))
    if host.startswith("/"):
        raise StackError(f"--database-url names the socket folder {host}; name a host and a port instead.")
    port = int(found.pop("port", None) or 5432)
    for credential in ("user", "password", "dbname"):
        found.pop(credential, None)
    return Server(host, port, {name: str(value) for name, value in found.items()})


def plain(url: str) -> str:
    """The URL as libpq reads it."""
    scheme, separator, rest = url.partition("://")
    name = scheme.partition("+")[0]
    if not separator or name not in ("postgresql", "postgres"):
        raise StackError(
            f"--database-url starts with '{scheme}'; postgresql://USER:PASSWORD@HOST:PORT/DATABASE is needed."
        )
    return f"postgresql://{rest}"


def make_databases(admin_url: str, server: Server, secrets: Secrets) -> None:
    """Make both roles and databases where they are missing; repeating it changes nothing.

    Raises:
        StackError: the server can't be reached, the administrator may not, or the roles belong to another home.
    """
    try:
        with psycopg.connect(plain(admin_url), autocommit=True, connect_timeout=10) as admin:
            for role, password in (
                (AIRFLOW, secrets.airflow_database_password),
                (LEDGER, secrets.ledger_database_password),
            ):
                _make(admin, role, password, server)
    except psycopg.errors.InsufficientPrivilege as error:
        raise StackError(
            f"the role of --database-url may not make roles and databases: {str(error).strip()}. It needs CREATEROLE "
            "and CREATEDB, for the first `phalanx up` only."
        ) from None
    except psycopg.OperationalError as error:
        raise StackError(f"PostgreSQL at {server.host}:{server.port} was not reached: {str(error).strip()}") from None


def _make(admin: psycopg.Connection[Any], role: str, password: str, server: Server) -> None:
    name = sql.Identifier(role)
    if admin.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone() is None:
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(name, sql.Literal(password)))
    elif not can_enter(server, role, password, "postgres", role):
        raise StackError(
            f"the role '{role}' exists on {server.host}:{server.port}, with a password that this state folder does not "
            f"have: another home uses it. Use that home, or drop the role and the database '{role}' on the server."
        )
    if admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", (role,)).fetchone() is None:
        # Who makes a database for a role must be a member of it, unless a superuser.
        admin.execute(sql.SQL("GRANT {} TO CURRENT_USER").format(name))
        admin.execute(sql.SQL("CREATE DATABASE {} OWNER {} ENCODING 'UTF8' TEMPLATE template0").format(name, name))
    admin.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(name))


def can_enter(server: Server, role: str, password: str, *databases: str) -> bool:
    """Whether the role gets into any of the databases with the password."""
    for database in databases:
        try:
            connection = make_conninfo(
                host=server.host,
                port=server.port,
                user=role,
                password=password,
                dbname=database,
                connect_timeout=10,
                **server.options,
            )
            psycopg.connect(connection).close()
        except psycopg.OperationalError:
            continue
        return True
    return False
