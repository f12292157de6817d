from __future__ import annotations

from pool_settings import Settings, read_text
from pool_settings.picture import LevelPicture, QuotaSum, picture_of


def test_picture_of_the_example(example: Settings) -> None:
    picture = picture_of(example)
    gpu, serving, cpu = picture.pools
    assert (gpu.nodes, gpu.gpus, gpu.spot_nodes) == (144, 128 * 8 + 16 * 4, 16)
    assert gpu.levels == (LevelPicture("spine", 3, 16, 64), LevelPicture("leaf", 10, 8, 16))
    assert gpu.mig == (("1g.10gb", 64), ("2g.20gb", 32), ("3g.40gb", 96))
    assert (gpu.price_per_hour, gpu.watts) == (128 * 20 + 16 * 9.5, 128 * 8000 + 16 * 7500)
    assert (serving.gpu_models, cpu.nodes, cpu.cpus) == ((("L4", 48),), 200, 12800)
    most = {quota.queue: quota.most for quota in picture.quotas if quota.resource == "gpus"}
    assert most == {"nightly": 384 + 320, "research": 640 + 256, "harvest": 384 + 320}
    assert picture.sums[0] == QuotaSum("gpu", "gpus", 1024, 1088, (("company", 1024),))


def test_what_is_odd_is_warned_of() -> None:
    found = picture_of(
        read_text(
            "[gpu.A]\nmemory_gib = 1\n[pool.empty]\n[pool.p]\npower_cap_w = 5\n"
            "[[pool.p.nodes]]\nname = 'n'\ncpus = 4\nmemory_gib = 1\nis_spot = true\n"
            "[queue.a.quota.p]\ncpus = 6\nmemory_gib = 0.5\n"
        )
    ).warnings
    assert [warning for warning in found if "queues own 6 cpus of pool 'p', whose nodes hold 4" in warning]
    for said in ("no nodes here", "no watts", "no spot_mtbf", "lent by nobody", "no [queue.default]", "GPU model 'A'"):
        assert [warning for warning in found if said in warning], said


def test_hundred_thousand_gpus_are_a_few_lines() -> None:
    file = (
        "[gpu.B]\nmemory_gib = 192\n[pool.p]\nlevels = ['hall', 'spine', 'leaf']\n[[pool.p.nodes]]\n"
        "name = 'n[00000-12499]'\ncpus = 128\nmemory_gib = 2048\ngpus = 8\ngpu_model = 'B'\n"
        "per_domain = { hall = 2500, spine = 500, leaf = 20 }\n"
    )
    (pool,) = picture_of(read_text(file)).pools
    assert (pool.nodes, pool.gpus) == (12_500, 100_000)
    assert [(level.name, level.domains, level.most_nodes) for level in pool.levels] == [
        ("hall", 5, 2500),
        ("spine", 25, 500),
        ("leaf", 625, 20),
    ]
