"""
Measures what needs a GPU, item by item: each is its own run, and its result is written when it ends.

    python benchmarks/gpu.py --part correct        # trains in every way that the recipes offer; `make test-gpu`
    python benchmarks/gpu.py --part speed          # against TRL's own trainer, and against docs/recipes.md
    python benchmarks/gpu.py --part queue          # what is open, the most telling first, until --minutes are over
    python benchmarks/gpu.py --part correct --dry-run     # the items that a CPU can do; does not write docs/gpu.md

Each part takes at most 8 minutes on one H200 with 16 cores. Items whose result is in `results.jsonl` of the output
folder are not run again, unless they failed. At the end docs/gpu.md is written from that file. vLLM is used where it
is installed, on a CPU by the interpreter in `$VLLM_PYTHON` (`make test-vllm`). An item of the queue has 8 minutes of
a call, and goes on in the next one with the same output folder; its pretrained models are those that
tests/support/pretrained.py has made. A step against TRL's should have a ratio of at most 1.01. To compare finished
cells: `pretrained_training.py --output outputs/benchmark-gpu/cells-0.5B`, with their arms and seeds.
"""

import argparse
import functools
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from itertools import pairwise, product
from pathlib import Path
from statistics import fmean, median
from typing import Any

import paired
import torch
import yaml
from pretrained_training import COMPETITIONS, chosen
from rich.table import Table

from trl_mle.showing import PlainConsole


ROOT = Path(__file__).parents[1]
# For vLLM on a CPU, and a server that takes weights from a file; the package need not be installed
sys.path += [str(ROOT), str(ROOT / "tests")]
os.environ["PYTHONPATH"] = ":".join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))

from support import vllm_on_cpu  # noqa: E402
from support.launch import launch  # noqa: E402
from support.vllm_server import VllmServer  # noqa: E402

from trl_mle.competitions import load_competition  # noqa: E402
from trl_mle.competitions.competition import user_cache_dir  # noqa: E402
from trl_mle.evaluation.evaluate import file_name  # noqa: E402
from trl_mle.execution import LocalExecutor  # noqa: E402
from trl_mle.starter.build import StarterConfig, build_starter  # noqa: E402
from trl_mle.trainer.engine.checkpoint import damage, find_checkpoints  # noqa: E402


CUDA = torch.cuda.is_available()
PYTHON = sys.executable if CUDA else os.environ.get("VLLM_PYTHON", sys.executable)
LIMIT_S = 240  # for an item
QUEUE_S = 480  # for an item of the queue in one call
ENGINE = threading.Lock()  # one vLLM at a time, because it measures the memory of the whole GPU when it starts
os.environ["VLLM_PYTHON"] = PYTHON  # for the server
# Mean difference between log-probabilities of vLLM and the trainer; with 16 bits on a GPU
CLOSE = 0.1 if CUDA else 1e-4
SMALL = {
    "max_steps": 3, "per_device_train_batch_size": 16, "num_generations": 16, "save_strategy": "no",
    "use_cpu": str(not CUDA).lower(), "bf16": str(CUDA).lower(),
}  # fmt: skip
CUT_OFF = "to be continued"  # the result of an item of the queue that had no time left
LORA = {"use_peft": "true", "lora_r": 8, "lora_target_modules": "all-linear"}
COLOCATE = {
    "use_vllm": "true", "vllm_mode": "colocate",
    "vllm_gpu_memory_utilization": 0.08, "vllm_max_model_length": 2048,
}  # fmt: skip
GPU_RUNS = ROOT / "benchmarks" / "gpu_runs.py"
RECIPE = ROOT / "recipes" / "hardware" / "1x24gb.yaml"
RECIPE_ON_CPU = SMALL | {"competitions": ["wine", "diabetes"], "use_vllm": "false", "vllm_enable_sleep_mode": "false"}
RECIPE_ON_CPU |= {"save_strategy": "steps", "gradient_accumulation_steps": 1, "max_completion_length": 64}
RECIPE_ON_CPU |= {"dtype": "float32", "max_steps": 4, "save_steps": 1}


class Skipped(Exception):
    """The item cannot be done here; the message says why."""


def needs(condition: bool, what: str) -> None:
    if not condition:
        raise Skipped(f"needs {what}")


@functools.cache
def sandbox() -> str:
    """Like the Makefile's quickstart: no isolation only if it is known that no sandbox works."""
    doctor = subprocess.run([sys.executable, "-m", "trl_mle.cli", "doctor"], capture_output=True)
    return "none" if doctor.returncode == 1 else "auto"


@functools.cache
def has_vllm() -> bool:
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('vllm') is None)"
    return subprocess.run([PYTHON, "-c", code]).returncode == 0


def words(options: dict[str, Any]) -> list[str]:
    """Options of a command; a list has several words."""
    found: list[str] = []
    for name, value in options.items():
        found += [f"--{name}", *map(str, value if isinstance(value, list) else [value])]
    return found


def in_time(command: list[Any], folder: Path, seconds: float) -> None:
    """Runs Python, its output in a file; ends its processes and raises `subprocess.TimeoutExpired` after the time."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "output.txt"
    options = {"env": os.environ | vllm_on_cpu.ENVIRONMENT, "start_new_session": True, "stderr": subprocess.STDOUT}
    with path.open("a") as output:
        process = subprocess.Popen([sys.executable, *map(str, command)], stdout=output, **options)
    try:
        code = process.wait(seconds)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert code == 0, path.read_text()[-1500:]


def model(name: str, starter: Path) -> Path:
    """The folder of a pretrained model; on a CPU the starter stands for it."""
    folder = user_cache_dir() / "models" / name if CUDA else starter
    needs(folder.is_dir(), str(folder))
    return folder


def train(
    starter: Path, folder: Path, zero_stage: int = 0, fsdp2: bool = False, environment: dict | None = None,
    through: Sequence[Any] = (), timeout_s: float = LIMIT_S if CUDA else 900, **options: Any,
) -> list[dict]:  # fmt: skip
    """Runs the training script in one process, through another script; returns what it logged at each step."""
    common = {"model_name_or_path": starter, "output_dir": folder, "sandbox": sandbox()}
    if "config" not in options:
        common |= {"config": ROOT / "recipes" / "quickstart.yaml", **SMALL}
    script = [*map(str, through), str(ROOT / "recipes" / "train_mle.py")]
    if options.get("use_vllm", "false") == "true":
        needs(has_vllm(), "vLLM")
        script.insert(0, vllm_on_cpu.__file__)
    environment = vllm_on_cpu.ENVIRONMENT | (environment or {})
    environment["PATH"] = f"{Path(PYTHON).parent}:{os.environ['PATH']}"
    folder.mkdir(parents=True, exist_ok=True)
    arguments = [*script[1:], *words(common | options)]
    how = {"environment": environment, "zero_stage": zero_stage, "fsdp2": fsdp2, "python": PYTHON, "processes": 1}
    code, output = launch(script[0], arguments, folder, timeout_s=timeout_s, **how)
    (folder / "output.txt").write_text(output)
    lines = [line for line in output.splitlines() if "error: " in line]
    assert code == 0, f"exit code {code}: {lines[0] if lines else output[-1500:]}"
    assert "Traceback" not in output, output[output.index("Traceback") :][:1500]
    history = json.loads((folder / "trainer_state.json").read_text())["log_history"]
    return [row for row in history if "loss" in row]


def figures(history: list[dict]) -> dict[str, float]:
    """Checks a run of a few steps, and returns its figures."""
    assert len(history) == SMALL["max_steps"]
    assert all(0 <= row["grad_norm"] < 1e3 for row in history)
    found = {"step_s": min(row["step_time"] for row in history), "valid": history[-1]["mle/valid_rate"]}
    if "sampling/sampling_logp_difference/mean" in history[0]:
        found["logp_difference"] = max(row["sampling/sampling_logp_difference/mean"] for row in history)
        assert found["logp_difference"] < CLOSE
    return found


# Part "correct": each way to train


def bf16(starter: Path, folder: Path) -> dict:
    return figures(train(starter, folder))


def colocate(starter: Path, folder: Path, zero_stage: int = 0, **options: Any) -> dict:
    needs(not zero_stage or importlib.util.find_spec("deepspeed") is not None, "DeepSpeed")
    needs(CUDA or "vllm_enable_sleep_mode" not in options, "a GPU: vLLM does not sleep on a CPU")
    with ENGINE:
        return figures(train(starter, folder, zero_stage, **COLOCATE, **options))


def lora_on_bf16(starter: Path, folder: Path) -> dict:
    return colocate(starter, folder, **LORA, dtype="bfloat16" if CUDA else "float32")


def qlora(starter: Path, folder: Path) -> dict:
    needs(CUDA and importlib.util.find_spec("bitsandbytes") is not None, "a GPU and bitsandbytes")
    return figures(train(starter, folder, **LORA, load_in_4bit="true"))


def fsdp2_like_ddp(starter: Path, folder: Path) -> dict:
    needs(CUDA, "a GPU: on a CPU accelerate trains by DDP instead")
    split = train(starter, folder / "fsdp2", fsdp2=True)
    assert "FSDP2" in (folder / "fsdp2" / "README.md").read_text()  # otherwise accelerate has used something else
    whole = train(starter, folder / "ddp")
    difference = abs(split[0]["grad_norm"] / whole[0]["grad_norm"] - 1)
    assert difference < 0.02
    return figures(split) | {"grad_norm_difference": difference}


def server(starter: Path, folder: Path) -> dict:
    """NCCL refuses two processes on one GPU, so the weights go through a file."""
    needs(has_vllm(), "vLLM")
    folder.mkdir(parents=True)
    options = {"weight-transfer-config": '{"backend": "file"}', "max-model-len": 2048, "max-logprobs": -1}
    options |= {"worker-extension-cls": "support.file_weights.Extension", "logprobs-mode": "processed_logprobs"}
    options |= {"gpu-memory-utilization": 0.1} if CUDA else {}
    paths = ":".join(filter(None, [str(ROOT / "tests"), os.environ.get("PYTHONPATH")]))
    vllm = VllmServer(starter, folder / "server.log", *words(options), VLLM_SERVER_DEV_MODE="1", PYTHONPATH=paths)
    with ENGINE, ExitStack() as stack:
        stack.callback(vllm.kill)
        vllm.start()
        vllm_options = {"use_vllm": "true", "vllm_mode": "server", "vllm_server_base_url": vllm.url}
        weights = {vllm_on_cpu.WEIGHTS_FILE: str(folder / "weights.safetensors")}
        return figures(train(starter, folder / "run", environment=weights, **vllm_options))


def programs_on_a_gpu(starter: Path, folder: Path, seconds: float = 120) -> dict:
    needs(CUDA, "a GPU")
    program = "import torch\nx = torch.ones(512, 512, device='cuda')\nprint('sum', int((x @ x).sum()))"
    with LocalExecutor(max_parallel=1, timeout_s=seconds, memory_mb=16_384, gpus=["0"]) as executor:
        result = executor.submit(program, load_competition("digits")).result()
    assert "sum 134217728" in result.stdout, result.detail or result
    return {"program_s": result.duration_s}


# Part "speed"


def measured(kind: str, starter: Path, folder: Path, seconds: float = 400) -> dict:
    """Runs gpu_runs.py in its own process, and returns its figures."""
    in_time([GPU_RUNS, kind, starter, folder], folder, seconds)
    return json.loads((folder / "figures.json").read_text())


# Part "queue": what is cut off leaves its folder to the next call


def recipe(starter: Path, folder: Path, seconds: float) -> dict:
    """`hardware/1x24gb` as it is written, but for 40 steps; lists have what was reached in each quarter of them."""
    run, path = folder / "run", folder / "blocks.jsonl"
    options = {"competitions": yaml.safe_load(RECIPE.read_text())["competitions"], "max_steps": 40, "save_steps": 5}
    options |= {"use_vllm": "true"} if CUDA else RECIPE_ON_CPU
    if any(damage(checkpoint) is None for checkpoint in find_checkpoints(run)):
        options["resume_from_checkpoint"] = "true"
    else:
        shutil.rmtree(run, ignore_errors=True)
    through = [GPU_RUNS, "train", path]
    history = train(model("coder-1.5b", starter), run, timeout_s=seconds, through=through, config=RECIPE, **options)
    took = {block["step"]: block["seconds"] for block in paired.read(path) if block["name"].endswith("generate")}
    programs, length = history[0]["mle/programs"], fmean(row["completions/mean_length"] for row in history)
    rates = [programs * row["completions/mean_length"] / took[row["step"] - 1] for row in history]
    found: dict[str, Any] = {"step_s": median(row["step_time"] for row in history), "tokens_per_s": median(rates)}
    found["prompt_tokens"] = round(history[-1]["num_tokens"] / len(history) / programs - length)
    found["completion_tokens"] = round(length)
    quarters = list(pairwise(len(history) * quarter // 4 for quarter in range(5)))
    found["valid"] = [fmean(row["mle/valid_rate"] for row in history[first:end]) for first, end in quarters]
    for competition in map(load_competition, options["competitions"]):
        name, best = f"mle/{competition.slug}/score/best", max if competition.higher_is_better else min
        scores = [[row[name] for row in history[:end] if name in row] for _, end in quarters]
        found[f"best, {competition.slug}"] = [best(some, default=None) for some in scores]
    (folder / "figures.json").write_text(json.dumps(found))
    return found


def vllms_benchmark(starter: Path, folder: Path, seconds: float) -> dict:
    """vLLM's own benchmark of what the recipe generates in a step: the same model, batch and mean lengths."""
    needs(CUDA and has_vllm(), "a GPU and vLLM")
    path = folder.with_name(file_name(AS_WRITTEN)) / "figures.json"
    needs(path.is_file(), AS_WRITTEN)
    ours = json.loads(path.read_text())
    options = {"model": model("coder-1.5b", starter), "batch-size": 4, "n": 16, "input-len": ours["prompt_tokens"]}
    options |= {"output-len": ours["completion_tokens"], "max-model-len": 2048, "gpu-memory-utilization": 0.45}
    options |= {"num-iters-warmup": 3, "num-iters": 10, "output-json": folder / "latency.json"}
    in_time(["-m", "vllm.entrypoints.cli.main", "bench", "latency", *words(options)], folder, seconds)
    latencies = json.loads((folder / "latency.json").read_text())["latencies"]
    rate = 64 * ours["completion_tokens"] / median(latencies)
    return {"tokens_per_s": rate, "ours": ours["tokens_per_s"], "ratio": ours["tokens_per_s"] / rate}


def cell(size: str, competition: str, arm: str, seed: int, starter: Path, folder: Path, seconds: float) -> dict:
    """A cell of pretrained_training.py; all cells of a size have one folder. On a CPU, all are of wine."""
    output = folder.with_name(f"cells-{size}")
    options = {"competitions": competition, "arms": arm, "seeds": seed, "output": output}
    options["model"] = model(f"coder-{size.lower()}", starter)
    options |= {"learning_rate": 5e-5, "programs": 64} if size == "1.5B" else {}
    options |= {} if CUDA else {"steps": 2, "samples": 8, "competitions": "wine"}
    in_time([ROOT / "benchmarks" / "pretrained_training.py", *words(options)], folder, seconds)
    key = {"competition": options["competitions"], "arm": arm, "seed": seed}
    line = next(line for line in paired.read(output / "cells.jsonl") if key.items() <= line.items())
    valid = [score for score in line["seen"] if score is not None]
    _, held_out = chosen(line, load_competition(key["competition"]).higher_is_better)
    return {"valid": len(valid) / len(line["seen"]), "scores": len(set(valid)), "best, held out": held_out}


AGAINST_TRL, ON_A_GPU = "a step outside of programs, against TRL's", "programs on a GPU"
AS_WRITTEN = "hardware/1x24gb, 40 steps"
QUEUE: dict[str, Callable[..., dict]] = {
    ON_A_GPU: programs_on_a_gpu,
    AS_WRITTEN: recipe,
    "vLLM's benchmark of it": vllms_benchmark,
    AGAINST_TRL: functools.partial(measured, "step"),
}
MOST_TELLING = [("0.5B", ["asked, ideas", "ideas"]), ("0.5B", ["asked, ideas, varied", "ideas, varied"])]
MOST_TELLING += [("1.5B", ["asked, ideas", "ideas"])]
for (size, arms), seed, competition in product(MOST_TELLING, range(3), COMPETITIONS):
    for arm in arms:
        item = f"{size} trained or asked: {arm}, {competition.rpartition(':')[2]}, seed {seed}"
        QUEUE[item] = functools.partial(cell, size, competition, arm, seed)
PARTS: dict[str, dict[str, Callable[..., dict]]] = {
    "correct": {
        "all weights, bf16": bf16,
        "vLLM colocated": colocate,
        "vLLM colocated, sleep mode": functools.partial(colocate, vllm_enable_sleep_mode="true"),
        "vLLM colocated, ZeRO-3": functools.partial(colocate, zero_stage=3),
        "vLLM colocated, asynchronous": functools.partial(colocate, async_rollouts="true"),
        "vLLM colocated, LoRA on a bf16 base": lora_on_bf16,
        "vLLM server on the same GPU (weights by a file)": server,
        "QLoRA": qlora,
        "FSDP2 like DDP": fsdp2_like_ddp,
        ON_A_GPU: programs_on_a_gpu,
    },
    "speed": {
        AGAINST_TRL: functools.partial(measured, "step"),
        "memory of 0.5B, all weights": functools.partial(measured, "memory"),
        "memory of 0.5B, LoRA": functools.partial(measured, "memory-lora"),
    },
    "queue": QUEUE,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, required=True)
    parser.add_argument("--items", nargs="+", help="only items whose name contains one of these")
    parser.add_argument("--output", type=Path, default=Path("outputs/benchmark-gpu"))
    parser.add_argument("--minutes", type=float, default=9, help="of the queue, after which the next call goes on")
    parser.add_argument("--note", default="", help="what else the page should say, such as what shared the GPU")
    parser.add_argument("--dry-run", action="store_true", help="without a GPU, do what a CPU can do")
    args = parser.parse_args()
    if not CUDA and not args.dry_run:
        raise SystemExit("error: no GPU found: use --dry-run for what a CPU can do")
    output = args.output.absolute()
    output.mkdir(parents=True, exist_ok=True)
    lines = output / "results.jsonl"
    ends, queued = time.monotonic() + 60 * args.minutes, args.part == "queue"
    latest = {line["item"]: line for line in read(lines) if line["device"] == device()}
    failed = {name for name, line in latest.items() if (line["part"], line["result"]) == (args.part, "failed")}
    asked = {
        name: PARTS[args.part][name]
        for name in sorted(PARTS[args.part], key=failed.__contains__)  # those that failed are tried last
        if latest.get(name, {}).get("result") != "passed"
        and (not args.items or any(part in name for part in args.items))
    }
    starter = output / "starter"
    if asked and not (starter / "README.md").is_file():  # written last
        programs = {} if CUDA else {"num_programs": 640}
        build_starter(StarterConfig(output_dir=str(starter), competitions=["digits"], **programs))

    def run(name: str) -> bool:
        started = time.monotonic()
        limit = {"seconds": min(QUEUE_S, ends - started)} if queued else {}
        if queued and ends <= started:
            return True
        folder = output / (file_name(name) if queued else f"{datetime.now(UTC):%H%M%S}-{file_name(name)}")
        line: dict[str, Any] = {"part": args.part, "item": name, "device": device()}
        try:
            line |= {"result": "passed", "figures": asked[name](starter, folder, **limit)}
        except Skipped as reason:
            line |= {"result": "skipped", "reason": str(reason)}
        except subprocess.TimeoutExpired as error:
            line |= {"result": CUT_OFF if queued else "failed", "reason": f"stopped after {error.timeout:.0f} s"}
        except Exception as error:  # any error is a result, and the other items still run
            line |= {"result": "failed", "reason": f"{type(error).__name__}: {error}"[:2000]}
        spent = latest[name]["seconds"] if latest.get(name, {}).get("result") == CUT_OFF else 0.0
        line |= {"seconds": round(spent + time.monotonic() - started, 1), "date": f"{datetime.now(UTC):%Y-%m-%d}"}
        line |= {"torch": torch.__version__, "note": args.note}
        with lines.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{line['result']:8} {line['seconds']:6.1f} s  {name}  {line.get('reason', '')[:100]}", flush=True)
        return line["result"] != "failed"

    with ThreadPoolExecutor(3 if args.part == "correct" and CUDA else 1) as pool:
        good = all(list(pool.map(run, asked)))
    found = [line for line in read(lines) if line["device"] == device()]
    show(found)
    if CUDA:
        (ROOT / "docs" / "gpu.md").write_text(page(found))
        skipped = [line["item"] for line in found if line["part"] == args.part and line["result"] == "skipped"]
        if skipped:
            print(f"error: not tried on this GPU, for the reasons in the table: {', '.join(skipped)}", file=sys.stderr)
            good = False
    sys.exit(not good)


def device() -> str:
    return torch.cuda.get_device_name() if CUDA else "CPU (dry run)"


def read(path: Path) -> list[dict]:
    """The last line of each item and device."""
    found = map(json.loads, path.read_text().splitlines()) if path.is_file() else []
    return list({(line["item"], line["device"]): line for line in found}.values())


def cells(line: dict) -> list[str]:
    shown = ", ".join(f"{name} {number(value)}" for name, value in line.get("figures", {}).items())
    reason = line.get("reason", "").partition("\n")[0].replace("|", "/")[:200]
    return [line["item"], line["result"], f"{line['seconds']:.0f}", shown or reason]


def number(value: float | list[float | None]) -> str:
    values = value if isinstance(value, list) else [value]
    return " ".join("–" if item is None else f"{item:.3g}" for item in values)


def show(lines: list[dict]) -> None:
    table = Table("item", "result", "s", "figures")
    for line in lines:
        table.add_row(*cells(line))
    PlainConsole().print(table)


def page(lines: list[dict]) -> str:
    """The text of docs/gpu.md."""
    lines = [line for line in lines if (line["part"], line["result"]) != ("queue", "skipped")]
    text = "# On a GPU\n\nWritten by `benchmarks/gpu.py`, whose other items have not run on a GPU; [twenty runs](results.md#what-a-pretrained-model-learns) of a 0.5B have.\n"
    for part in PARTS:
        rows = [line for line in lines if line["part"] == part]
        if rows:
            text += f"\n## {part}: {rows[-1]['device']}, torch {rows[-1]['torch']}, {rows[-1]['date']}\n\n"
            text += "| item | result | seconds | figures |\n|---|---|---|---|\n"
            text += "".join(f"| {' | '.join(cells(line))} |\n" for line in rows)
            text += "".join(f"\n{note}\n" for note in dict.fromkeys(line.get("note") for line in rows) if note)
    known = {line["item"] for line in lines if line["part"] == "queue" or line["result"] == "passed"}
    groups = Counter(name.partition(":")[0] for name in QUEUE if name not in known)
    left = [f"{name} ({count})" if count > 1 else name for name, count in groups.items()]
    return text + f"\n## Not run: `--part queue`\n\nIn order: {'; '.join(left)}.\n" if left else text


if __name__ == "__main__":
    main()
