"""`phalanx up`: brings the stack up and stays with it, or leaves it running in the background."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from embedded_stack import airflow_settings, background
from embedded_stack.airflow_api import AirflowApi
from embedded_stack.errors import StackError
from embedded_stack.foreground import Session, serve
from embedded_stack.gang_watch import GangWatch
from embedded_stack.launcher import Launcher, Options, home_of
from embedded_stack.run_follower import FollowedRun, RunFollower, conf_of, read_metrics
from embedded_stack.state_folder import StateFolder
from gang_controller.wiring import open_ledger, open_registry
from model_registry.registry import UnknownModel
from phalanx_cli.output import Home, Json, fail, print_facts, print_json, say, teller

CHECKOUT = airflow_settings.checkout_folders()


def up(
    home: Home = None,
    database_url: Annotated[
        str,
        typer.Option(
            envvar="PHALANX_DATABASE_URL",
            help="A PostgreSQL server to use instead of the embedded one: an administrator's URL, for the first start.",
            show_envvar=True,
        ),
    ] = "",
    port: Annotated[int, typer.Option(help="Port of the UI; default: the last one, first 8080.", min=0, max=65535)] = 0,
    detach: Annotated[bool, typer.Option("--detach", help="Leave the stack running in the background.")] = False,
    run: Annotated[str, typer.Option("--run", metavar="DAG_ID", help="Trigger a run and follow it.")] = "",
    once: Annotated[
        bool, typer.Option("--once", help="With --run: stop everything after it; exit 1 if it fails.")
    ] = False,
    conf: Annotated[str, typer.Option(metavar="JSON", help="With --run: its parameters, or @FILE.")] = "",
    dags: Annotated[Path, typer.Option(help="Folder of DAGs.")] = CHECKOUT.dags,
    plugins: Annotated[Path, typer.Option(help="Folder of Airflow plugins.")] = CHECKOUT.plugins,
    as_json: Json = False,
) -> None:
    """Bring up PostgreSQL and Airflow, wait until they are healthy, and stay with them until Ctrl-C."""
    folder = home_of(home)
    try:
        if (once or conf) and not run:
            raise StackError("--once and --conf say how to --run; name a DAG with --run")
        if once and detach:
            raise StackError("--once takes the stack down after the run, --detach leaves it running; choose one")
        folders = airflow_settings.Folders(_folder(dags, "--dags"), _folder(plugins, "--plugins"))
        options = Options(folders, port, database_url)
        parameters = conf_of(conf)
        speaker = Speaker(folder, as_json, is_detached=detach)
        runner = RunOfDag(run, parameters, as_json) if run else None
        if detach:
            address = background.start(folder, options, speaker.tell)
            speaker.show_up(address)
            if runner is not None:
                runner.follow(address, folder, threading.Event(), speaker)
        else:
            work = (lambda launcher, stop: runner.follow(launcher.address, folder, stop, speaker)) if runner else None
            was_up = serve(folder, options, Session(speaker.on_up, work, once), speaker.tell)
            speaker.tell("down" if was_up else "stopped before it was up")
    except StackError as error:
        fail(error, as_json)
    if runner is not None and runner.ended is not None and not runner.ended.is_success:
        raise typer.Exit(1)
    if once and (runner is None or runner.ended is None):
        raise typer.Exit(1)


class Speaker:
    """Tells how the stack comes up: lines to people, one JSON document to programs."""

    def __init__(self, folder: StateFolder, as_json: bool, *, is_detached: bool) -> None:
        """Speak of the stack in `folder`."""
        self.tell = teller(as_json)
        self._folder = folder
        self._as_json = as_json
        self._is_detached = is_detached

    def on_up(self, launcher: Launcher) -> None:
        self.show_up(launcher.address)

    def show_up(self, address: str) -> None:
        """Show where the UI is, and the login if nobody has seen it yet."""
        user, password = airflow_settings.login(self._folder)
        shown = self._folder.airflow / "login-shown"
        is_first = not shown.exists()
        if self._as_json:
            facts = {"address": address, "home": str(self._folder.home), "user": user}
            print_json(
                {**facts, "password": password if is_first else None, "passwords_file": str(self._folder.passwords)}
            )
        else:
            say(f"UI  {address}")
            kept = f"kept in {self._folder.passwords}"
            say(
                f"login  {user} / {password}  (shown this once; {kept})"
                if is_first
                else f"login  {user}, password {kept}"
            )
            say("stop with `phalanx down`" if self._is_detached else "stop with Ctrl-C, or `phalanx down` elsewhere")
        shown.touch()


class RunOfDag:
    """The run that `--run` asked for; `ended` is set when it has."""

    def __init__(self, dag_id: str, conf: dict[str, Any], as_json: bool) -> None:
        """Run `dag_id` with the parameters `conf`."""
        self.ended: FollowedRun | None = None
        self._dag_id = dag_id
        self._conf = conf
        self._as_json = as_json
        self._parsed_since = datetime.now(UTC)

    def follow(self, address: str, folder: StateFolder, stop: threading.Event, speaker: Speaker) -> None:
        """Trigger it, follow it to its end and show what came of it."""
        api = AirflowApi(address, *airflow_settings.login(folder))
        with closing(open_ledger(folder.home)) as ledger:
            gangs = None if self._as_json else GangWatch(ledger.states)
            follower = RunFollower(api, speaker.tell, stop, gangs)
            self.ended = follower.run(self._dag_id, self._conf, self._parsed_since)
        if self.ended is None:
            return
        facts = {"state": self.ended.state, "seconds": round(self.ended.seconds, 1), "link": self.ended.link}
        if self._as_json:
            more = {"results": self.ended.results, "reason": self.ended.reason or None, "run_id": self.ended.run_id}
            print_json({"dag_id": self.ended.dag_id, **facts, **more})
            return
        say("")
        print_facts({"run": f"{self.ended.dag_id} / {self.ended.run_id}", **facts, "UI": address})
        told = read_metrics(self.ended.results)
        print_facts({**told, **_measured(folder, told.get("model_id"))})
        if self.ended.reason:
            say(f"\n{self.ended.reason}")


def _measured(folder: StateFolder, model_id: Any) -> dict[str, str]:
    """What the registry holds of a model's evaluation: one line for each of challenger, champion and base rate.

    Any DAG may be followed, and what it calls `model_id` may be no model of this registry: then nothing is added.
    """
    if not isinstance(model_id, int):
        return {}
    with closing(open_registry(folder.home)) as registry:
        try:
            metrics = registry.model(model_id).facts.metrics
        except UnknownModel:
            return {}
    return {
        who.replace("_", " "): ", ".join(
            f"{name} {measured[key]:.4f}"
            for key, name in (("auc", "AUC"), ("log_loss", "log loss"), ("ece", "calibration error"))
            if key in measured
        )
        for who, measured in metrics.items()
        if isinstance(measured, Mapping) and "auc" in measured
    }


def _folder(path: Path, option: str) -> Path:
    if not path.is_dir():
        raise StackError(f"{option} {path}: there is no such folder")
    return path.resolve()
