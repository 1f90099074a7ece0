"""
Measures what a vLLM server saves by generating while the trainer trains and programs run, and checks that no rollout is
lost.

    python benchmarks/overlap.py speed --python .venv-vllm/bin/python
    python benchmarks/overlap.py kills --python .venv-vllm/bin/python

`speed`: a real `vllm serve` has the last core to itself, the trainer the others, and programs sleep, so that generation, training and
execution each take about as long and do not compete for cores. Synchronous training and overlapped training take turns.
Outcome: seconds of a step (median) over the longest of the three, of the same run, and over those of a synchronous step.

`kills`: the trainer and the server are killed with SIGKILL at random moments and started again, while the script trains. What each
checkpoint has in flight must have been trained on or be in flight in the next one, and nothing may be trained on twice.

--python is the interpreter of an environment with vLLM and this package (`make test-vllm` creates one). A CPU is enough.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.table import Table


TESTS = Path(__file__).parents[1] / "tests"
CORES = sorted(os.sched_getaffinity(0))
COMPLETIONS, TOKENS, STEPS, WARM_UP = 16, 96, 12, 3
PROMPT = [{"role": "user", "content": "Write a program."}]


def train(url: str, mode: str, sleep_s: float, folder: Path) -> None:
    """Trains in the environment with vLLM; writes figures to `folder`."""
    from datasets import Dataset
    from transformers import TrainerCallback

    from trl_mle.competitions import load_competition
    from trl_mle.execution import LocalExecutor
    from trl_mle.rewards import MLEReward
    from trl_mle.trainer import MLEGRPOConfig, MLEGRPOTrainer

    class Sleeping(MLEReward):
        """Executes programs that sleep instead of the policy's."""

        def submit(self, items):
            code = f"```python\nimport time\ntime.sleep({sleep_s})\n```"
            return super().submit([(code, competition) for _, competition in items])

    class Marks(TrainerCallback):
        def __init__(self):
            self.marks = []

        def on_step_end(self, *args, **kwargs):
            self.marks.append(time.monotonic())

    competition = load_competition("wine")
    args = MLEGRPOConfig(
        str(folder / "run"),
        max_steps=STEPS,
        per_device_train_batch_size=COMPLETIONS,
        num_generations=8,
        max_completion_length=TOKENS,
        generation_kwargs={"ignore_eos": True},
        use_vllm=True,
        vllm_mode="server",
        vllm_server_base_url=url,
        async_rollouts=True,
        max_in_flight=COMPLETIONS * (1 if mode == "synchronous" else 3),
        improve_probability=0.0,
        use_cpu=True,
        bf16=False,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        logging_steps=1,
    )
    rows = {"prompt": [PROMPT] * STEPS * COMPLETIONS, "competition": [competition.id] * STEPS * COMPLETIONS}
    marks = Marks()
    with LocalExecutor(max_parallel=COMPLETIONS, timeout_s=600, sandbox="none") as executor:
        executor.submit("pass", competition).result()  # starts its warm parent
        reward = Sleeping([competition], executor, show_progress=False)
        trainer = MLEGRPOTrainer(
            str(folder.parent / "policy"), reward, args, Dataset.from_dict(rows), callbacks=[marks]
        )
        trainer.train()
    history = [row for row in trainer.state.log_history if "loss" in row][WARM_UP:]
    names = "generation_s", "training_s", "execution_s", "sync_s", "generation_wait_s", "wait_s"
    figures = {name: statistics.median(row[f"mle/async/{name}"] for row in history) for name in names}
    figures["step_s"] = statistics.median(b - a for a, b in list(pairwise(marks.marks))[WARM_UP - 1 :])
    (folder / "figures.json").write_text(json.dumps(figures))


def save_larger_policy(folder: Path, layers: int) -> None:
    """Saves a random policy with a few million weights, so that a step takes seconds."""
    from tiny_policy import save_policy
    from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM, set_seed

    save_policy(folder, ["pass"], seed=0)
    size = len(AutoTokenizer.from_pretrained(folder))
    set_seed(0)
    config = Qwen2Config(
        vocab_size=size,
        hidden_size=256,
        intermediate_size=1024,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=AutoTokenizer.from_pretrained(folder).eos_token_id,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)


def speed(args: argparse.Namespace, console: Console) -> None:
    from support.vllm_training import training_server

    if len(CORES) < 2:
        sys.exit("overlap.py: error: the server needs its own core: use at least two")
    runs = []
    with tempfile.TemporaryDirectory() as name:
        save_larger_policy(Path(name, "policy"), args.layers)
        server, weights, environment = training_server(Path(name, "policy"), Path(name, "server.log"))
        server.command = ["taskset", "-c", str(CORES[-1]), *server.command]
        server.start()

        def measure(mode: str, sleep_s: float) -> dict[str, float]:
            folder = Path(tempfile.mkdtemp(dir=name))
            own = ["taskset", "-c", ",".join(map(str, CORES[:-1])), args.python]
            script = [
                str(TESTS / "support" / "vllm_on_cpu.py"),
                __file__,
                "train",
                server.url,
                mode,
                str(sleep_s),
                str(folder),
            ]
            log = folder / "log"
            with log.open("w") as file:
                code = subprocess.run(
                    [*own, *script], env=os.environ | environment, stdout=file, stderr=file
                ).returncode
            if code:
                sys.exit(log.read_text()[-3000:])
            return json.loads((folder / "figures.json").read_text())

        try:
            sleep_s = args.sleep_s
            if sleep_s is None:
                found = measure("synchronous", 0.1)
                starting_s = found["wait_s"] - found["execution_s"]  # the start of programs uses the trainer's cores
                sleep_s = round((found["generation_s"] + found["training_s"]) / 2 - starting_s, 1)
            for number in range(args.runs):
                for mode in ("synchronous", "overlapped"):
                    figures = {"mode": mode, "run": number, "sleep_s": sleep_s, **measure(mode, sleep_s)}
                    longest = max(figures[key] for key in ("generation_s", "training_s", "execution_s"))
                    runs.append(figures | {"over_longest": figures["step_s"] / longest})
                    console.print(json.dumps(runs[-1]), soft_wrap=True)
        finally:
            server.kill()
            weights.unlink(missing_ok=True)
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "speed.json").write_text(json.dumps(runs, indent=1))
    table = Table("", "step (s)", "generation", "training", "execution", "weights", "step / longest")
    for mode in ("synchronous", "overlapped"):
        of_mode = [run for run in runs if run["mode"] == mode]

        def cell(key: str, of_mode: list = of_mode) -> str:
            values = sorted(run[key] for run in of_mode)
            return f"{statistics.median(values):.2f} ({values[0]:.2f} to {values[-1]:.2f})"

        keys = "step_s", "generation_s", "training_s", "execution_s", "sync_s", "over_longest"
        table.add_row(mode, *map(cell, keys))
    console.print(table)


def kills(args: argparse.Namespace, console: Console) -> None:
    from support import vllm_on_cpu
    from support.launch import launch_command
    from support.tiny_models import save_solution_model
    from support.vllm_training import script_arguments, teach_policy, training_server

    rng = random.Random(args.seed)
    count = {"trainer": 0, "server": 0}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "run")
        folder.mkdir()
        policy = teach_policy(save_solution_model(Path(name, "model")), Path(name, "policy"))
        server, weights, environment = training_server(policy, Path(name, "server.log"))
        server.start()
        options = {
            "vllm_mode": "server", "vllm_server_base_url": server.url, "async_rollouts": "true", "log_completions": "true",
            "save_strategy": "steps", "save_steps": 1, "max_steps": 100_000, "resume_from_checkpoint": "true",
        }  # fmt: skip
        trainer, log = None, Path(name, "trainer.log")
        try:
            while sum(count.values()) < args.times or newest(folder) < args.steps:
                if trainer is None or trainer.poll() is not None:
                    if trainer is not None and trainer.returncode != -signal.SIGKILL:
                        sys.exit(f"the trainer ended with {trainer.returncode}: " + log.read_text()[-3000:])
                    resume = options if newest(folder) else options | {"resume_from_checkpoint": "false"}
                    command = launch_command(
                        vllm_on_cpu.__file__,
                        script_arguments(policy, folder, 1, **resume),
                        folder,
                        processes=1,
                        python=args.python,
                    )
                    command["env"] |= environment | vllm_on_cpu.ENVIRONMENT
                    with log.open("a") as file:
                        trainer = subprocess.Popen(**command, stdout=file, stderr=file, start_new_session=True)
                    started, first = time.monotonic(), newest(folder)
                # In the middle of a step, after at least one step since the start, so that training advances
                while newest(folder) <= first and trainer.poll() is None:
                    if time.monotonic() > started + 600:
                        sys.exit("no step in ten minutes: " + log.read_text()[-3000:])
                    time.sleep(0.2)
                time.sleep(rng.uniform(0.0, 8.0))
                if sum(count.values()) >= args.times:
                    continue
                who = rng.choice([who for who in count if count[who] < args.times / 2] or list(count))
                if who == "trainer":
                    os.killpg(trainer.pid, signal.SIGKILL)
                    trainer.wait()
                else:
                    server.kill()
                    server.start()
                first = newest(folder)
                count[who] += 1
                console.print(f"{sum(count.values())}/{args.times}: killed the {who} after step {newest(folder)}")
            os.killpg(trainer.pid, signal.SIGKILL)
            trainer.wait()
        finally:
            server.kill()
            weights.unlink(missing_ok=True)
        steps = check(folder)
    result = {"kills": count, "steps": steps, "lost": 0, "twice": 0, "seed": args.seed}
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "kills.json").write_text(json.dumps(result, indent=1))
    console.print(
        f"{count['trainer']} kills of the trainer and {count['server']} of the server in {steps} steps: no rollout lost"
    )


def newest(folder: Path) -> int:
    """Step of the newest whole checkpoint."""
    return max(
        (int(path.parent.name.partition("-")[2]) for path in folder.glob("checkpoint-*/trainer_state.json")), default=0
    )


def check(folder: Path) -> int:
    """Raises `AssertionError` if a rollout was lost or trained on twice between two checkpoints; returns their number."""
    before: set[int] = set()
    steps = newest(folder)
    for step in range(1, steps + 1):
        state = json.loads((folder / f"checkpoint-{step}" / "rollouts.json").read_text())
        in_flight = {rollout["id"] for rollout in state["in_flight"]}
        table = pd.read_parquet(folder / "completions" / f"completions_{step:05d}.parquet")
        trained = table["rollout_id"].tolist()
        assert len(trained) == len(set(trained)) == 8, (step, trained)
        assert before <= in_flight | set(trained), (step, before, in_flight, trained)
        assert not in_flight & set(trained), (step, in_flight, trained)
        assert state["sampled"] == state["trained"] + len(in_flight)
        assert state["trained"] == 8 * step
        before = in_flight
    return steps


def main() -> None:
    if sys.argv[1:2] == ["train"]:
        url, mode, sleep_s, folder = sys.argv[2:]
        train(url, mode, float(sleep_s), Path(folder))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["speed", "kills"])
    parser.add_argument("--python", required=True, help="interpreter of an environment with vLLM and this package")
    parser.add_argument("--runs", type=int, default=3, help="runs of each mode")
    parser.add_argument("--layers", type=int, default=4, help="layers of the policy of `speed`")
    parser.add_argument("--sleep_s", type=float, help="duration of its programs; measured by default")
    parser.add_argument("--times", type=int, default=20, help="number of kills")
    parser.add_argument("--steps", type=int, default=30, help="minimum steps of training with kills")
    parser.add_argument("--seed", type=int, default=0, help="seed of their moments")
    parser.add_argument("--output", type=Path, default=Path("outputs/benchmark-overlap"))
    args = parser.parse_args()
    args.python = str(Path(args.python).absolute())
    os.environ["VLLM_PYTHON"] = args.python
    sys.path.insert(0, str(TESTS))
    {"speed": speed, "kills": kills}[args.part](args, Console())


if __name__ == "__main__":
    main()
