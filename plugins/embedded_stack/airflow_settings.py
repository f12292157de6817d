"""Airflow's configuration for one home: a 0600 airflow.cfg, the login file, and the environment of its processes."""

from __future__ import annotations

import configparser
import io
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from embedded_stack import ports
from embedded_stack.processes import MARK
from embedded_stack.secret_store import Secrets
from embedded_stack.state_folder import StateFolder, write_text

ADMIN = "admin"
# AF_UNIX takes 107 bytes; multiprocessing appends `/pymp-xxxxxxxx/listener-xxxxxxxx` to the temporary folder.
LONGEST_TMPDIR = 70


@dataclass(frozen=True, slots=True)
class Folders:
    """What Airflow loads: a folder of DAGs and one of plugins."""

    dags: Path
    plugins: Path


def checkout_folders() -> Folders:
    """Those of the checkout that this package lies in."""
    plugins = Path(__file__).resolve().parents[1]
    return Folders(plugins.parent / "dags", plugins)


def settings(
    folder: StateFolder, folders: Folders, port: int, database_url: str, secrets: Secrets
) -> dict[str, dict[str, str]]:
    """All settings that differ from Airflow's own, by section."""
    here = f"http://{ports.LOOPBACK}:{port}"
    return {
        "core": {
            "dags_folder": str(folders.dags),
            "plugins_folder": str(folders.plugins),
            "load_examples": "False",
            "executor": "LocalExecutor",
            # Task processes at once. Gangs hold no slot while they train, so a handful suits two cores.
            "parallelism": "8",
            "max_active_tasks_per_dag": "16",
            "default_timezone": "utc",
            "hostname_callable": "socket.gethostname",  # the default asks a name server, which a laptop may not have
            "fernet_key": secrets.fernet_key,
            "simple_auth_manager_users": f"{ADMIN}:admin",
            "simple_auth_manager_passwords_file": str(folder.passwords),
            "execution_api_server_url": f"{here}/execution/",
            "min_serialized_dag_update_interval": "5",
        },
        "database": {"sql_alchemy_conn": database_url},
        "logging": {
            "base_log_folder": str(folder.logs / "airflow"),
            "dag_processor_child_process_log_directory": str(folder.logs / "dag_processor"),
            "colored_console_log": "False",
            # All processes share the log folder, so none serves logs to another; port 1 refuses at once.
            "worker_log_server_port": "1",
            "trigger_log_server_port": "1",
        },
        "api": {
            "host": ports.LOOPBACK,
            "port": str(port),
            "base_url": here,
            "workers": "1",
            "secret_key": secrets.api_secret_key,
            "expose_config": "non-sensitive-only",
        },
        "api_auth": {"jwt_secret": secrets.jwt_secret},
        "scheduler": {
            # What a lost task process costs until its next try starts.
            "task_instance_heartbeat_timeout": "90",
            "scheduler_idle_sleep_time": "0.5",
        },
        # Tasks outlive an API server that is restarted: 12 heartbeats of 5 s.
        "workers": {"max_failed_heartbeats": "12", "execution_api_retries": "8"},
        "triggerer": {
            "capacity": "1000",
            # How long triggers of a killed triggerer wait for the next one.
            "triggerer_health_check_threshold": "20",
        },
        "dag_processor": {
            "refresh_interval": "5",
            "bundle_refresh_check_interval": "2",
            "min_file_process_interval": "30",
            "parsing_processes": "2",
            "print_stats_interval": "0",
        },
    }


def write_settings(folder: StateFolder, chosen: Mapping[str, Mapping[str, str]], secrets: Secrets) -> bool:
    """Write airflow.cfg and the login file; True if the login is new."""
    parser = configparser.ConfigParser(interpolation=None)
    # Airflow interpolates its file: a percent sign stands for itself only when doubled.
    parser.read_dict({s: {k: v.replace("%", "%%") for k, v in options.items()} for s, options in chosen.items()})
    text = io.StringIO()
    text.write("# Written by `phalanx up` at every start; a variable AIRFLOW__SECTION__KEY adds what is not here.\n")
    parser.write(text)
    write_text(folder.airflow / "airflow.cfg", text.getvalue())
    is_new = not folder.passwords.exists()
    if is_new:
        write_text(folder.passwords, json.dumps({ADMIN: secrets.admin_password}) + "\n")
    return is_new


def login(folder: StateFolder) -> tuple[str, str]:
    """User and password, as the auth manager reads them."""
    passwords = json.loads(folder.passwords.read_text())
    return ADMIN, str(passwords[ADMIN])


def environment(
    folder: StateFolder, chosen: Mapping[str, Mapping[str, str]], inherited: Mapping[str, str]
) -> dict[str, str]:
    """The environment of Airflow's processes; it holds no credential, and no setting that airflow.cfg holds."""
    owned = {f"AIRFLOW__{section}__{key}".upper() for section, options in chosen.items() for key in options}
    derived = ("_CMD", "_SECRET")
    kept = {
        name: value
        for name, value in inherited.items()
        if name not in owned and not any(name == key + suffix for key in owned for suffix in derived)
    }
    for name in ("PHALANX_DATABASE_URL", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC"):
        kept.pop(name, None)
    temporary = folder.home / "tmp"
    kept.update(
        {
            "AIRFLOW_HOME": str(folder.airflow),
            "AIRFLOW_CONFIG": str(folder.airflow / "airflow.cfg"),
            "PHALANX_HOME": str(folder.home),
            "PHALANX_LEDGER_URL_FILE": str(folder.ledger_url),
            "PHALANX_DATA_DIR": str(folder.home / "data"),
            "PHALANX_RUNS_DIR": str(folder.home / "runs"),
            "PHALANX_MODELS_DIR": str(folder.home / "models"),
            "PHALANX_REPORTS_DIR": str(folder.home / "reports"),
            MARK: str(folder.home),
            # Process titles would overwrite the environment by which `phalanx down` finds what is left.
            "SPT_NOENV": "1",
            "XDG_CACHE_HOME": str(folder.cache),
            "XDG_CONFIG_HOME": str(folder.cache / "config"),
            "XDG_DATA_HOME": str(folder.cache / "data"),
            "XDG_STATE_HOME": str(folder.cache / "state"),
            "GX_ANALYTICS_ENABLED": "false",
            "RAY_USAGE_STATS_ENABLED": "0",
            "PYTHONUNBUFFERED": "1",
            "TZ": "UTC",
        }
    )
    if len(os.fsencode(temporary)) <= LONGEST_TMPDIR:
        kept["TMPDIR"] = str(temporary)
    return kept
