"""Which recipe fits which machine."""

import pytest

from trl_mle.scripts.machine import facts, recipe
from trl_mle.shipped import find_recipe


@pytest.mark.parametrize(
    ("gpus", "name"),
    [
        ([25.3e9], "hardware/1x24gb"),
        ([85e9], "hardware/1x80gb"),
        ([25.3e9] * 2, "hardware/1x24gb --accelerate_config ddp"),
        ([42e9] * 8, "qwen2.5-3b-instruct/<competition> --accelerate_config zero3"),
    ],
)
def test_a_recipe_for_gpus(gpus, name):
    assert recipe(gpus).startswith(f"trl-mle train --config {name} (")
    find_recipe(name.split()[0].replace("<competition>", "leaf-classification"))


@pytest.mark.parametrize("gpus", [[], [8e9]])
def test_without_a_gpu_of_enough_memory_the_quickstart_fits(gpus):
    assert recipe(gpus).startswith("trl-mle quickstart")


def test_facts_of_this_machine(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    known = dict(facts())
    assert known["GPU"] == "none that torch can use"
    assert " GB free, " in known["memory"]
    assert known["train with"] == recipe([])
