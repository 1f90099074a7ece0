"""Recipes and accelerate's configurations, found by name."""

import pytest

from trl_mle.shipped import copy_recipe, find_accelerate_config, find_recipe, recipe_names, shipped


def test_recipes_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(recipe_names()) == len(list(shipped("recipes").rglob("*.yaml")))
    for name in recipe_names():
        assert find_recipe(name) == find_recipe(f"{name}.yaml")
    own = tmp_path / "quickstart"
    own.write_text("max_steps: 1")
    assert find_recipe("quickstart").absolute() == own  # a user's file comes first
    with pytest.raises(FileNotFoundError, match="nor a recipe; did you mean 'hardware/1x24gb'"):
        find_recipe("hardwre/1x24gb")

    assert find_accelerate_config("zero3").parent == shipped("accelerate_configs")  # TRL has one, too
    with pytest.raises(FileNotFoundError, match="did you mean 'zero3'"):
        find_accelerate_config("zero9")


def test_a_copy_to_edit(tmp_path):
    path = copy_recipe("hardware/1x24gb", tmp_path)
    assert path == tmp_path / "1x24gb.yaml"
    assert path.read_text() == find_recipe("hardware/1x24gb").read_text()
    assert copy_recipe("quickstart", tmp_path / "mine.yaml").name == "mine.yaml"
    with pytest.raises(FileExistsError, match="--to"):
        copy_recipe("quickstart", tmp_path / "mine.yaml")
