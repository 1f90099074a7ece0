"""
The same training with DDP, ZeRO-1, ZeRO-2 and ZeRO-3, of all weights and LoRA, on two processes, as our configurations
launch it.

Durations and scores are replayed, so that all engines see the same; then each trains once on executed programs.
"""

import json
import runpy
import sys
from pathlib import Path

import pytest
import torch
from peft import LoraConfig
from support import forked, pool_runs
from support.pool_runs import QUESTIONS
from transformers import AutoModelForCausalLM, AutoTokenizer


ROOT = Path(__file__).parents[3]
SCRIPT = str(ROOT / "recipes" / "train_mle.py")
STEPS = 3
# With SGD, a wrong scale would show
REPLAYED = {"steps": STEPS, "cls": pool_runs.ReplayTrainer, "optim": "sgd", "learning_rate": 0.1}
SAVED = {"steps": 4, "save_strategy": "steps", "save_steps": 2}
LORA = {"peft_config": LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"])}
ENGINES = {"ddp": ("MULTI_CPU", None), "zero1": ("DEEPSPEED", 1), "zero2": ("DEEPSPEED", 2), "zero3": ("DEEPSPEED", 3)}


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def records(solution_model, tmp_path_factory):
    """The records of both processes, by run."""
    folder = tmp_path_factory.mktemp("engines")
    pytest.importorskip("deepspeed")
    base = {"model": solution_model.path, "save": True}
    known = {}
    for engine in ENGINES:
        runs = {engine: base | REPLAYED}
        if engine in ("ddp", "zero3"):
            runs[f"{engine}-lora"] = base | REPLAYED | LORA
        if engine == "zero3":
            checkpoint = str(folder / "zero3-whole" / "checkpoint-2")
            runs["zero3-whole"] = base | SAVED
            runs["zero3-resumed"] = base | SAVED | {"resume_from_checkpoint": checkpoint}
        started = pool_runs.start(folder, runs, 2, forked.accelerate_environment(engine))
        forked.finish(started, folder)
        for name in runs:
            known[name] = [torch.load(folder / f"{name}-{rank}.pt", weights_only=False) for rank in range(2)]
            known[name][0]["folder"] = folder / name
    return known


@pytest.mark.parametrize(
    ("name", "reference"), [("zero1", "ddp"), ("zero2", "ddp"), ("zero3", "ddp"), ("zero3-lora", "ddp-lora")]
)
def test_it_trains_like_ddp(records, name, reference):
    for record, ddp in zip(records[name], records[reference], strict=True):
        assert (record["engine"], record["zero_stage"]) == ENGINES[name.partition("-")[0]]
        assert record["processes"] == 2
        assert len(record["turns"]) == STEPS
        for turn, expected in zip(record["turns"], ddp["turns"], strict=True):
            for column in ("prompts", "kinds", "parents", "completion_ids", "rewards", "weights"):
                assert turn[column] == expected[column], column
            assert turn["advantages"] == pytest.approx(expected["advantages"], abs=1e-5)
        assert record["pool"] == ddp["pool"]
        assert record["weights"].keys() == ddp["weights"].keys()
        for weight, weights in ddp["weights"].items():
            assert (record["weights"][weight] - weights).abs().max() <= 1e-5, weight


def test_a_resumed_run_is_exact_under_zero3(records):
    for whole, resumed in zip(records["zero3-whole"], records["zero3-resumed"], strict=True):
        assert len(whole["turns"]) == 4
        assert resumed["turns"] == whole["turns"][2:]
        for name in ("pool", "generation", "rng", "losses"):
            assert resumed[name] == whole[name]
        for name, weights in whole["weights"].items():
            assert torch.equal(resumed["weights"][name], weights)


@pytest.mark.parametrize("name", ["ddp", "ddp-lora", "zero1", "zero2", "zero3", "zero3-lora"])
def test_the_saved_model_is_the_policy_in_plain_transformers(records, name):
    record = records[name][0]
    model = AutoModelForCausalLM.from_pretrained(record["folder"], dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(record["folder"])
    saved = dict(model.named_parameters())
    for weight, trained in record["weights"].items():
        key = weight.removeprefix("base_model.model.")
        if key in saved:
            assert torch.equal(saved[key], trained), weight
    for question, answer in zip(QUESTIONS, record["answers"], strict=True):
        ids = tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], add_generation_prompt=True, return_tensors="pt", return_dict=False
        )
        output = model.generate(ids, max_new_tokens=8, do_sample=False)[0, ids.shape[1] :]
        assert tokenizer.decode(output, skip_special_tokens=True) == answer.text


# With executed programs: the recipe itself, as our configurations launch it
LORA_TOO, RESUMED = ["--use_peft", "true"], ["--max_steps", "4", "--resume_from_checkpoint", "true"]
REAL = [("ddp", [], LORA_TOO), ("zero1", []), ("zero2", []), ("zero3", LORA_TOO, [], RESUMED)]


@pytest.mark.parametrize(("engine", "runs"), [(engine, runs) for engine, *runs in REAL])
def test_run_with_programs_that_are_executed(solution_model, tmp_path, engine, runs):
    pytest.importorskip("deepspeed")
    for more in runs:
        output_dir, steps = tmp_path / ("lora" if more is LORA_TOO else "all"), 4 if more is RESUMED else 2
        asked = arguments(solution_model, output_dir, *more)
        started = forked.start(recipe, (asked,), output_dir, 2, forked.accelerate_environment(engine))
        forked.finish(started, tmp_path)
        state = json.loads((output_dir / "trainer_state.json").read_text())
        assert state["global_step"] == steps
        logged = [entry for entry in state["log_history"] if "mle/valid_rate" in entry]
        assert len(logged) == steps
        assert max(entry["mle/valid_rate"] for entry in logged) > 0
        for rank in range(2):  # each process executes its own programs
            lines = (output_dir / "executions" / f"rank-{rank}.jsonl").read_text().splitlines()
            outcomes = {json.loads(line)["outcome"] for line in lines}
            assert "ok" in outcomes
            assert "infrastructure" not in outcomes
        AutoModelForCausalLM.from_pretrained(output_dir)
        assert "| `wine`" in (output_dir / "README.md").read_text()
        assert (output_dir / f"checkpoint-{steps}" / "solution_pool.json").is_file()


def arguments(model, output_dir, *more):
    small = ["--max_prompt_length", "4000", "--max_completion_length", "8", "--per_device_train_batch_size", "4"]
    small += ["--num_generations", "4", "--max_steps", "2", "--save_steps", "2", "--max_parallel_programs", "2"]
    small += ["--competitions", "wine", "--lora_target_modules", "q_proj", "v_proj"]
    small += ["--generation_kwargs", json.dumps(model.options["generation_kwargs"])]
    quickstart = ["--config", str(ROOT / "recipes" / "quickstart.yaml"), "--model_name_or_path", model.path]
    return [*quickstart, "--output_dir", str(output_dir), *small, *more]


def recipe(arguments):
    """Runs the recipe in each process."""
    sys.argv = [SCRIPT, *arguments]
    runpy.run_path(SCRIPT, run_name="__main__")
