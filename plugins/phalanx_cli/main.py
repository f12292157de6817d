"""The entry point: which commands there are."""

from __future__ import annotations

import typer

from phalanx_cli import config, down, gangs, models, nodes, pack, plan, pools, run, simulate, status, up

app = typer.Typer(
    name="phalanx",
    help="Airflow as a training platform: bring it up, look at it, take it down.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,  # they may hold credentials
)
app.command("up")(up.up)
app.command("down")(down.down)
app.command("status")(status.status)
app.add_typer(models.app, name="models")
app.add_typer(gangs.app, name="gangs")
app.add_typer(nodes.app, name="nodes")
app.add_typer(pools.app, name="pools")
app.add_typer(config.app, name="config")
app.command("plan")(plan.plan)
app.command("pack")(pack.pack)
app.command("run")(run.run)
app.command("simulate")(simulate.simulate_trace)


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
