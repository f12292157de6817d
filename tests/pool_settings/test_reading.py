"""Files that are wrong: each with its place, its value, what is allowed and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from pool_settings import Settings, SettingsInvalid, read_file, read_text

GPU = "[gpu.H100]\nmemory_gib = 80\nmig.halves = { '3g.40gb' = 2 }\n"
POOL = "[pool.gpu]\nlevels = ['spine', 'leaf']\n"


def nodes(more: str = "", name: str = "n[1-4]") -> str:
    return f"[[pool.gpu.nodes]]\nname = '{name}'\ncpus = 8\nmemory_gib = 64\n{more}\n"


PLACED = "per_domain = { spine = 2, leaf = 1 }\n"


def problems(text: str) -> list[str]:
    with pytest.raises(SettingsInvalid) as invalid:
        read_text(text)
    return [str(problem) for problem in invalid.value.problems]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            "[policy]\nordre = 'fifo'",
            "pools.toml:2: [policy]: ordre = \"fifo\": 'ordre' is not known here. Did you mean 'order'? Known: aged",
            id="unknown key",
        ),
        pytest.param("quue = 1", "pools.toml:1: quue = 1: 'quue' is not known here. Did you mean 'queue'?", id="table"),
        pytest.param(
            "[policy]\norder = 'lifo'",
            "pools.toml:2: [policy]: order = \"lifo\": must be one of 'due', 'fifo', 'sjf', 'srsf', 'las'. Choose one",
            id="enum",
        ),
        pytest.param("[policy]\nfair_share = 1", "fair_share = 1: must be true or false", id="bool"),
        pytest.param("[policy]\nmin_run = 300", 'min_run = 300: must be a duration such as "90s"', id="duration"),
        pytest.param("[policy]\naged_after = 'soon'", 'of at most 100 years, or "never". Correct it', id="or never"),
        pytest.param("[policy]\nlas_factor = inf", "las_factor = inf: must be a finite number", id="infinite"),
        pytest.param("[policy]\nlas_first = '0s'", 'las_first = "0s": must be longer than nothing', id="zero length"),
        pytest.param("[priority]\nhigh = 1.5", "[priority]: high = 1.5: must be a whole number", id="float priority"),
        pytest.param("[pool.gpu]\nstorage_gib = -1", "[pool.gpu]: storage_gib = -1: must be at least 0", id="negative"),
        pytest.param(
            "[gpu.H100]\ncompute = 1", "pools.toml:1: [gpu.H100]: memory_gib: memory_gib is missing", id="missing"
        ),
        pytest.param("[gpu.H100]\nmemory_gib = 0", "memory_gib = 0: must be more than 0", id="nothing"),
        pytest.param("pool = 3", "pool = 3: must be a table", id="no table"),
        pytest.param("[pool.gpu]\nnodes = [1]", "nodes[1] = 1: must be a table", id="no node table"),
        pytest.param("[pool.'*']", "must be a name of letters, digits", id="name"),
        # levels and places
        pytest.param(
            "[pool.gpu]\nlevels = ['node']", 'levels[1] = "node": node and pool are levels of every', id="node"
        ),
        pytest.param("[pool.gpu]\nlevels = ['a', 'a']", 'levels[2] = "a": is there twice', id="level twice"),
        pytest.param(
            POOL + nodes(), "[[pool.gpu.nodes]] 1: the pool has the levels 'spine', 'leaf', and", id="no place"
        ),
        pytest.param(
            POOL + nodes("location = ['s']"),
            'pools.toml:7: [[pool.gpu.nodes]] 1: location = ["s"]: names 1 domains; the pool\'s levels are',
            id="depth",
        ),
        pytest.param(POOL + nodes("location = ['s[0-1]', 'l[0-2]']"), "3 domains, which do not divide", id="uneven"),
        pytest.param(POOL + nodes("location = ['s[0-3]', 'l[0-1]']"), "would lie in 's0' and in 's1'", id="not nested"),
        pytest.param(POOL + nodes("per_domain = { spine = 3, leaf = 2 }"), "would lie in two", id="counts do not nest"),
        pytest.param(POOL + nodes("per_domain = { rack = 3 }"), "the pool's are 'spine', 'leaf'", id="other levels"),
        pytest.param(POOL + nodes(PLACED + "location = ['a', 'b']"), "Give one of the two", id="both places"),
        # nodes
        pytest.param(POOL + nodes(PLACED) + nodes(PLACED, "n4"), "node 'n4' is in table 1 as well", id="node twice"),
        pytest.param(POOL + nodes(PLACED, "n[1,1]"), "names a node twice", id="name twice"),
        pytest.param(POOL + nodes(PLACED, "n[2-1]"), "ends before it begins", id="range"),
        pytest.param(
            GPU + POOL + nodes(PLACED) + nodes(PLACED + "gpus = 1\ngpu_model = 'H10'", "m"),
            '[[pool.gpu.nodes]] 2: gpu_model = "H10": no table [gpu.H10]; GPU models: H100. Add it or name one',
            id="model",
        ),
        pytest.param(GPU + POOL + nodes(PLACED + "gpu_model = 'H100'"), "have 0 GPUs. Give gpus", id="no GPUs"),
        pytest.param(POOL + nodes(PLACED + "gpus = 1\nmig = { halves = 1 }"), "but no gpu_model", id="cut what"),
        pytest.param(
            GPU + POOL + nodes(PLACED + "gpus = 1\ngpu_model = 'H100'\nmig = { halves = 2 }"),
            "cuts 2 devices of a node that has 1",
            id="too many cut",
        ),
        pytest.param(
            GPU + POOL + nodes(PLACED + "gpus = 1\ngpu_model = 'H100'\nmig = { thirds = 1 }"),
            "[gpu.H100.mig] has no 'thirds'; it has: halves",
            id="layout",
        ),
        pytest.param("[gpu.A]\nmemory_gib = 80\nmig.x = { '4g.40gb' = 2 }", "asks 8 compute slices", id="slices"),
        pytest.param(
            "[gpu.A]\nmemory_gib = 40\nmig.x = { '3g.40gb' = 2 }", "asks 80 GB; [gpu.A] memory_gib", id="MIG GB"
        ),
        # queues
        pytest.param("[queue.a.quota.gpu]\ngpus = 1", "no gang pool 'gpu'; known: local", id="quota of what"),
        pytest.param(
            POOL + "[queue.a.quota.gpu]\ngpus = { nominal = 2, lend = 3 }",
            "[queue.a.quota.gpu.gpus]: lend = 3: is more than its nominal 2",
            id="lends more",
        ),
        pytest.param("[queue.a.quota.local]\ngpus = -1", "[queue.a.quota.local]: gpus = -1: must be", id="below 0"),
        pytest.param("[queue.a.quota.local]\ngpus = true", "gpus = true: must be a table", id="quota of a kind"),
        pytest.param(
            "[pool.k]\nauthority = 'kueue'\n[queue.a.quota.k]\ngpus = 1",
            "[queue.a.quota.k]: gang pool 'k' is admitted to by kueue ([pool.k] authority): one admission authority",
            id="other authority",
        ),
        pytest.param("[pool.local]\nauthority = 'kueue'", "every host serves pool local itself", id="local authority"),
        pytest.param("[queue.a]\nwindows = [{ from_hour = 25, until_hour = 6 }]", "must be at most 24", id="hour"),
        pytest.param("[queue.a]\nwindows = [{ from_hour = 6, until_hour = 6 }]", "never holds", id="empty window"),
        pytest.param("[queue.a]\nharvests_only = true", "has no cohort", id="harvests from nobody"),
        # access
        pytest.param("[[access.rules]]\nqueues = []", "[[access.rules]] 1: names no DAG", id="rule for nobody"),
        pytest.param("[access]\nteams.t = []", "[access.teams]: t = []: names no DAG", id="empty team"),
        pytest.param("[[access.rules]]\nteam = 't'", "is no key of [access.teams]; known: none", id="team"),
        pytest.param("[[access.rules]]\ndags = ['a']\npools = ['x']", "no gang pool 'x'", id="access to what pool"),
        pytest.param("[[access.rules]]\ndags = ['a']\nqueues = ['x']", "no table [queue.x]", id="access to what queue"),
        pytest.param("[[access.rules]]\ndags = ['a']\nmax_priority = 'x'", "is no key of [priority]", id="class"),
        pytest.param("[[access.rules]]\ndags = ['a']\nmax_priority = 1.5", "max_priority = 1.5: must be a", id="max"),
        # not even TOML
        pytest.param("a = ", "pools.toml: is no TOML: Invalid value (at end of document)", id="TOML"),
        pytest.param("a = " + "[" * 100_000, "is nested too deeply", id="depth of nesting"),
    ],
)
def test_problem_has_place_value_and_what_to_do_when_something_is_wrong(text: str, said: str) -> None:
    (found,) = problems(text)
    assert said in found
    assert found.startswith("pools.toml")


def test_problems_are_told_together_in_the_order_of_the_file() -> None:
    found = problems("[priority]\na = 'x'\n[policy]\nstretch = -1\nordre = 1\n")
    assert [line.split(": ")[0] for line in found] == ["pools.toml:2", "pools.toml:4", "pools.toml:5"]
    assert len(problems(POOL + nodes() + "[queue.a.quota.x]\ngpus = 1\n")) == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "can't be read: No such file"), (b"\xff", "is not UTF-8"), (b"#" * (17 * 2**20), "larger than 16 MiB")],
    ids=["missing", "bytes", "large"],
)
def test_file_that_is_no_settings_file_is_told(tmp_path: Path, content: bytes | None, said: str) -> None:
    file = tmp_path / "pools.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsInvalid, match=said):
        read_file(file)
    with pytest.raises(SettingsInvalid, match="can't be read"):
        read_file(tmp_path)


def test_empty_file_is_the_defaults() -> None:
    assert read_text("").policy == Settings().policy
    assert read_text("").snapshot().nodes == ()
