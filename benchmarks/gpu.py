"""
Measures what needs a GPU, item by item: each is its own run, and its result is written when it ends.

    python benchmarks/gpu.py --part correct        # trains in every way that the recipes offer; `make test-gpu`
    python benchmarks/gpu.py --part speed          # against TRL's own trainer, and against docs/recipes.md
    python benchmarks/gpu.py --part mirrors        # the starter on the twelve mirrors
    python benchmarks/gpu.py --part correct --dry-run     # the items that a CPU can do; does not write docs/gpu.md

Each part takes at most 8 minutes on one H200 with 16 cores. Items whose result is in `results.jsonl` of the output folder are
not run again, unless they failed. At the end docs/gpu.md is written from that file. vLLM is used where it is installed, on a
CPU by the interpreter in `$VLLM_PYTHON` (`make test-vllm`).
"""

import argparse
import functools
import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table


ROOT = Path(__file__).parents[1]
sys.path += [
    str(ROOT),
    str(ROOT / "tests"),
]  # for vLLM on a CPU, and a server that takes weights from a file
os.environ["PYTHONPATH"] = ":".join(
    filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])
)  # in case the package is not installed

from support import vllm_on_cpu  # noqa: E402
from support.launch import launch  # noqa: E402
from support.vllm_server import VllmServer  # noqa: E402

from trl_mle.competitions import load_competition  # noqa: E402
from trl_mle.competitions.mirrors import MIRRORS  # noqa: E402
from trl_mle.execution import LocalExecutor  # noqa: E402
from trl_mle.starter.build import StarterConfig, build_starter  # noqa: E402


CUDA = torch.cuda.is_available()
PYTHON = sys.executable if CUDA else os.environ.get("VLLM_PYTHON", sys.executable)
LIMIT_S = 240  # for an item
ENGINE = threading.Lock()  # one vLLM at a time, because it measures the memory of the whole GPU when it starts
os.environ["VLLM_PYTHON"] = PYTHON  # for the server
CLOSE = (
    0.1 if CUDA else 1e-4
)  # mean difference between log-probabilities of vLLM and the trainer; with 16 bits on a GPU
SMALL = {
    "max_steps": 3,
    "per_device_train_batch_size": 16,
    "num_generations": 16,
    "save_strategy": "no",
    "use_cpu": str(not CUDA).lower(),
    "bf16": str(CUDA).lower(),
}
LORA = {"use_peft": "true", "lora_r": 8, "lora_target_modules": "all-linear"}
COLOCATE = {
    "use_vllm": "true",
    "vllm_mode": "colocate",
    "vllm_gpu_memory_utilization": 0.08,
    "vllm_max_model_length": 2048,
}


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


def train(
    starter: Path,
    folder: Path,
    zero_stage: int = 0,
    fsdp2: bool = False,
    environment: dict | None = None,
    **options: Any,
) -> list[dict]:
    """Runs the training script in one process; returns what it logged at each step."""
    options = {
        "config": ROOT / "recipes" / "quickstart.yaml",
        "model_name_or_path": starter,
        "output_dir": folder,
        **SMALL,
        "sandbox": sandbox(),
        **options,
    }
    arguments = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
    script = [str(ROOT / "recipes" / "train_mle.py")]
    if "use_vllm" in options:
        needs(has_vllm(), "vLLM")
        script.insert(0, vllm_on_cpu.__file__)
    environment = vllm_on_cpu.ENVIRONMENT | (environment or {})
    environment["PATH"] = f"{Path(PYTHON).parent}:{os.environ['PATH']}"
    folder.mkdir(parents=True)
    code, output = launch(
        script[0],
        [*script[1:], *arguments],
        folder,
        timeout_s=LIMIT_S if CUDA else 900,
        environment=environment,
        processes=1,
        zero_stage=zero_stage,
        fsdp2=fsdp2,
        python=PYTHON,
    )
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
    options = [
        "--weight-transfer-config",
        '{"backend": "file"}',
        "--worker-extension-cls",
        "support.file_weights.Extension",
    ]
    options += ["--logprobs-mode", "processed_logprobs", "--max-logprobs", "-1"]
    options += ["--max-model-len", "2048", *["--gpu-memory-utilization", "0.1"] * CUDA]
    paths = ":".join(filter(None, [str(ROOT / "tests"), os.environ.get("PYTHONPATH")]))
    vllm = VllmServer(starter, folder / "server.log", *options, VLLM_SERVER_DEV_MODE="1", PYTHONPATH=paths)
    with ENGINE, ExitStack() as stack:
        stack.callback(vllm.kill)
        vllm.start()
        vllm_options = {"use_vllm": "true", "vllm_mode": "server", "vllm_server_base_url": vllm.url}
        weights = {vllm_on_cpu.WEIGHTS_FILE: str(folder / "weights.safetensors")}
        return figures(train(starter, folder / "run", environment=weights, **vllm_options))


def programs_on_a_gpu(starter: Path, folder: Path) -> dict:
    needs(CUDA, "a GPU")
    program = "import torch\nx = torch.ones(512, 512, device='cuda')\nprint('sum', int((x @ x).sum()))"
    with LocalExecutor(max_parallel=1, timeout_s=120, memory_mb=16_384, gpus=["0"]) as executor:
        result = executor.submit(program, load_competition("digits")).result()
    assert "sum 134217728" in result.stdout, result.detail or result
    return {"program_s": result.duration_s}


# Part "speed"


def measured(kind: str, starter: Path, folder: Path) -> dict:
    """Runs gpu_runs.py in its own process, and returns its figures."""
    folder.mkdir(parents=True)
    command = [sys.executable, str(ROOT / "benchmarks" / "gpu_runs.py"), kind, str(starter), str(folder)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert process.returncode == 0, process.stderr[-1500:]
    return json.loads((folder / "figures.json").read_text())


# Part "mirrors"


def mirror(name: str, starter: Path, folder: Path) -> dict:
    needs(CUDA, "a GPU: on a CPU see objectives_training.py")
    command = [sys.executable, str(ROOT / "benchmarks" / "objectives_training.py"), "--competitions", f"mirror:{name}"]
    command += ["--seeds", "0", "--arms", "max_at_k", "--output", str(folder)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=460)
    assert process.returncode == 0, process.stderr[-1500:]
    lines = [json.loads(line) for line in (folder / "cells.jsonl").read_text().splitlines()]
    return {f"valid, {line['arm']}": sum(map(bool, line["scores"])) / len(line["scores"]) for line in lines}


PARTS: dict[str, dict[str, Callable[[Path, Path], dict]]] = {
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
        "programs on a GPU": programs_on_a_gpu,
    },
    "speed": {
        "a step outside of programs, against TRL's": functools.partial(measured, "step"),
        "memory of 0.5B, all weights": functools.partial(measured, "memory"),
        "memory of 0.5B, LoRA": functools.partial(measured, "memory-lora"),
    },
    "mirrors": {f"starter on {name}": functools.partial(mirror, name) for name in MIRRORS},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, required=True)
    parser.add_argument("--items", nargs="+", help="only items whose name contains one of these")
    parser.add_argument("--output", type=Path, default=Path("outputs/benchmark-gpu"))
    parser.add_argument("--note", default="", help="what else the page should say, such as what shared the GPU")
    parser.add_argument("--dry-run", action="store_true", help="without a GPU, do what a CPU can do")
    args = parser.parse_args()
    if not CUDA and not args.dry_run:
        raise SystemExit("error: no GPU found: use --dry-run for what a CPU can do")
    output = args.output.absolute()
    output.mkdir(parents=True, exist_ok=True)
    lines = output / "results.jsonl"
    done = {line["item"] for line in read(lines) if line["result"] == "passed" and line["device"] == device()}
    asked = {
        name: item
        for name, item in PARTS[args.part].items()
        if name not in done and (not args.items or any(part in name for part in args.items))
    }
    starter = output / "starter"
    if asked and not (starter / "README.md").is_file():  # written last
        programs = {} if CUDA else {"num_programs": 640}
        build_starter(StarterConfig(output_dir=str(starter), competitions=["digits"], **programs))

    def run(name: str) -> bool:
        started = time.monotonic()
        folder = output / f"{datetime.now(UTC):%H%M%S}-{name.replace(' ', '-').replace(',', '')}"
        line: dict[str, Any] = {"part": args.part, "item": name, "device": device()}
        try:
            line |= {"result": "passed", "figures": asked[name](starter, folder)}
        except Skipped as reason:
            line |= {"result": "skipped", "reason": str(reason)}
        except Exception as error:  # any error is a result, and the other items still run
            line |= {"result": "failed", "reason": f"{type(error).__name__}: {error}"[:2000]}
        line |= {"seconds": round(time.monotonic() - started, 1), "date": f"{datetime.now(UTC):%Y-%m-%d}"}
        line |= {"torch": torch.__version__, "note": args.note}
        with lines.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{line['result']:8} {line['seconds']:6.1f} s  {name}  {line.get('reason', '')[:100]}", flush=True)
        return line["result"] != "failed"

    with ThreadPoolExecutor(12 if args.part == "mirrors" else 3 if args.part == "correct" and CUDA else 1) as pool:
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
    shown = ", ".join(f"{name} {value:.3g}" for name, value in line.get("figures", {}).items())
    return [
        line["item"],
        line["result"],
        f"{line['seconds']:.0f}",
        shown or line.get("reason", "").splitlines()[0].replace("|", "/")[:200],
    ]


def show(lines: list[dict]) -> None:
    table = Table("item", "result", "s", "figures")
    for line in lines:
        table.add_row(*cells(line))
    Console().print(table)


def page(lines: list[dict]) -> str:
    """The text of docs/gpu.md."""
    text = "# On a GPU\n\nWritten by `benchmarks/gpu.py`, which has run nothing else on a GPU.\n"
    for part in PARTS:
        rows = [line for line in lines if line["part"] == part]
        if rows:
            text += f"\n## {part}: {rows[-1]['device']}, torch {rows[-1]['torch']}, {rows[-1]['date']}\n\n"
            text += "| item | result | seconds | figures |\n|---|---|---|---|\n"
            text += "".join(f"| {' | '.join(cells(line))} |\n" for line in rows)
            text += "".join(f"\n{note}\n" for note in dict.fromkeys(line.get("note") for line in rows) if note)
    return text


if __name__ == "__main__":
    main()
