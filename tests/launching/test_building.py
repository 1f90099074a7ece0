"""What a run makes of its arguments, before a model is loaded."""

from contextlib import nullcontext
from pathlib import Path

import pytest
from support.openai_server import OpenAIServer

from trl_mle.execution.options import make_executor
from trl_mle.launching import MLEScriptArguments, make_instrumenter, make_parser
from trl_mle.launching.checks import check_engine
from trl_mle.models import LanguageModelError


QUICKSTART = str(Path(__file__).parents[2] / "recipes" / "quickstart.yaml")


def parsed(*more):
    """Parsed arguments of the quickstart, with longer prompts."""
    return make_parser().parse_args_and_config(["--config", QUICKSTART, "--max_prompt_length", "4000", *more])


def test_vllm_beside_programs_on_a_gpu():
    for more in (["--vllm_enable_sleep_mode", "true"], ["--vllm_mode", "server"]):
        _, training_args, _ = parsed("--use_vllm", "true", *more)
        check_engine(training_args, ["0"], use_peft=False)
    _, training_args, _ = parsed("--use_vllm", "true")
    with pytest.raises(ValueError, match="a colocated vLLM keeps its GPU memory"):
        check_engine(training_args, ["0"], use_peft=False)


def test_an_adapter_under_fsdp_is_refused(monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    _, training_args, _ = parsed("--use_vllm", "true")
    with pytest.raises(ValueError, match="FSDP needs GPUs: use ddp or zero3"):
        check_engine(training_args, [], use_peft=False)
    training_args.use_cpu = False
    monkeypatch.setattr("torch.accelerator.is_available", lambda: True)
    check_engine(training_args, [], use_peft=False)
    with pytest.raises(ValueError, match=r"^use_vllm: FSDP cannot merge the adapter"):
        check_engine(training_args, [], use_peft=True)


def test_gpu_slots_become_slots_of_the_executor():
    for more, gpus in (["1"], [None]), (["2", "--gpu_slots", "1", "GPU-5f"], ["1", "GPU-5f"]):
        script_args, _, _ = parsed("--max_parallel_programs", *more)
        with make_executor(script_args) as executor:
            assert [slot.gpu for slot in executor._slots.slots] == gpus
    for in_yaml, slots in (([0, 1], ["0", "1"]), (0, ["0"]), ("GPU-5f", ["GPU-5f"]), (None, [])):
        assert MLEScriptArguments(gpu_slots=in_yaml).gpu_slots == slots


def test_endpoint_of_the_policy_is_refused():
    """At the start, before a model is loaded, because TRL overwrites the weights of that server."""
    server = OpenAIServer(lambda prompt, max_tokens: ("", 0))
    args = ["--instrumenter", "lm", "--instrumenter_url", server.url, "--use_vllm", "true"]
    args += ["--vllm_mode", "server", "--vllm_server_host", "localhost"]
    for port, refused in ((server.url.split(":")[2].removesuffix("/v1"), True), ("1", False)):
        script_args, training_args, _ = parsed(*args, "--vllm_server_port", port)
        with pytest.raises(LanguageModelError, match="is the vLLM server of the policy") if refused else nullcontext():
            make_instrumenter(script_args, training_args)
