"""Every recipe parses, and the configurations that launch it load."""

import runpy
from pathlib import Path

import pytest

from trl_mle.competitions.catalog import MLEBENCH_COMPETITIONS
from trl_mle.launching import make_parser


ROOT = Path(__file__).parents[2]
RECIPES = [*sorted(ROOT.glob("recipes/*.yaml")), *sorted(ROOT.glob("recipes/*/*.yaml"))]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_recipe_parses_and_builds(recipe):
    """The paper's have the paper's hyperparameters."""
    script_args, training_args, model_args = make_parser().parse_args_and_config(
        ["--config", str(recipe), "--use_cpu", "true", "--bf16", "false"]
    )
    if recipe.parent.name == "qwen2.5-3b-instruct":
        check_hyperparameters(script_args, training_args, model_args)
    assert script_args.competitions
    assert model_args.model_name_or_path
    assert training_args.output_dir.startswith("outputs/")
    assert training_args.max_steps % training_args.optimizer_steps_per_generation == 0


def test_recipes_are_what_their_templates_make():
    """One for each of the twelve, with two objectives, and for each mirror."""
    made = runpy.run_path(str(ROOT / "recipes" / "make_recipes.py"))["recipes"]()
    assert len(made) == 2 * len(MLEBENCH_COMPETITIONS)
    found = {path for folder in {path.parent for path in made} for path in folder.iterdir()}
    assert {path: path.read_text(encoding="utf-8") for path in found} == made, "run python recipes/make_recipes.py"


def check_hyperparameters(script_args, args, model_args):
    assert (args.max_prompt_length, args.max_completion_length, args.learning_rate) == (1024, 1024, 1e-5)
    assert 8 * args.generation_batch_size == 128  # eight processes
    assert (args.objective, args.duration_weighting, args.async_rollouts) == ("reward", "linear", True)
    assert (args.duration_weight_low, args.duration_weight_high) == (None, None)
    assert (script_args.instrumenter, script_args.instrumenter_model) == ("lm", model_args.model_name_or_path)
    assert script_args.holdout == 0.0


@pytest.mark.parametrize("config", sorted((ROOT / "accelerate_configs").glob("*.yaml")), ids=lambda path: path.stem)
def test_accelerate_config_loads(config):
    from accelerate.commands.config.config_args import load_config_from_file

    loaded = load_config_from_file(str(config))
    assert loaded.num_processes == {"cpu": 1, "zero3_multi_node": 16}.get(config.stem, 8)
    # A free port, so that two runs on a machine do not collide; several machines must agree on one
    assert loaded.main_process_port == (29500 if "multi_node" in config.stem else 0)
    if config.stem.startswith("zero"):
        assert loaded.deepspeed_config["zero_stage"] == int(config.stem[4])
