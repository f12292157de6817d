"""Passwords and keys of one home: made once, kept in a 0600 file, never in an environment or a command line."""

from __future__ import annotations

import base64
import os
import secrets
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from embedded_stack.state_folder import read_json, write_json


def _password() -> str:
    # Letters and digits only: it stands in URLs, in an ini file and is typed by people.
    alphabet = "abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
    return "".join(secrets.choice(alphabet) for _ in range(20))


def _fernet_key() -> str:
    return base64.urlsafe_b64encode(os.urandom(32)).decode()


@dataclass(frozen=True, slots=True)
class Secrets:
    """All secrets of a home."""

    postgres_password: str = field(default_factory=_password)
    airflow_database_password: str = field(default_factory=_password)
    ledger_database_password: str = field(default_factory=_password)
    admin_password: str = field(default_factory=_password)
    jwt_secret: str = field(default_factory=lambda: secrets.token_urlsafe(48))
    api_secret_key: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    fernet_key: str = field(default_factory=_fernet_key)

    @classmethod
    def of(cls, path: Path) -> Secrets:
        """Those kept in `path`; what is missing there is made and kept."""
        kept = read_json(path) or {}
        known = {f.name for f in fields(cls)}
        found = cls(**{name: str(value) for name, value in kept.items() if name in known})
        if asdict(found) != kept:
            write_json(path, asdict(found))
        return found
