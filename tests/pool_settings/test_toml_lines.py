from __future__ import annotations

import tomllib

from pool_settings.toml_lines import Path, key_lines, line_of

TEXT = '''\
title = "a # no [comment]"   # [not.a.table]

[pool.gpu]  # one
levels = [
    "spine",  # of
    "leaf",
]
text = """
[fake]
key = 1
"""
"quoted.key" = 1
a.b = { c = 1 }

[[pool.gpu.nodes]]
name = 'x[1-2]'
[[pool.gpu.nodes]]
name = "y"
[pool.gpu.nodes.labels]
q = "1"
'''


def test_every_key_has_its_line() -> None:
    tomllib.loads(TEXT)
    lines = key_lines(TEXT)
    expected: dict[Path, int] = {
        ("title",): 1,
        ("pool", "gpu"): 3,
        ("pool", "gpu", "levels"): 4,
        ("pool", "gpu", "text"): 8,
        ("pool", "gpu", "quoted.key"): 12,
        ("pool", "gpu", "a"): 13,
        ("pool", "gpu", "a", "b"): 13,
        ("pool", "gpu", "nodes", 0): 15,
        ("pool", "gpu", "nodes", 0, "name"): 16,
        ("pool", "gpu", "nodes", 1): 17,
        ("pool", "gpu", "nodes", 1, "name"): 18,
        ("pool", "gpu", "nodes", 1, "labels"): 19,
        ("pool", "gpu", "nodes", 1, "labels", "q"): 20,
    }
    assert lines == expected


def test_what_has_no_line_of_its_own_has_that_of_what_holds_it() -> None:
    lines = key_lines(TEXT)
    assert line_of(lines, ("pool", "gpu", "levels", 1)) == 4
    assert line_of(lines, ("pool", "gpu", "nodes", 1, "missing")) == 17
    assert line_of(lines, ("nothing",)) is None
