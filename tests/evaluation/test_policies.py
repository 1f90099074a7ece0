"""Models of every kind answer alike."""

import shutil
from collections import Counter
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from support.openai_server import OpenAIServer
from transformers import AutoModelForCausalLM, AutoTokenizer

from trl_mle.evaluation import EndpointPolicy, TransformersPolicy, load_policy
from trl_mle.evaluation.policies import check_policy, completion_length
from trl_mle.rewards.progress import how_to_ask


def conversation(text):
    return [{"role": "user", "content": text}]


def texts(completions):
    return [completion.text for completion in completions]


def test_prompts_of_any_length_side_by_side(tiny_model):
    """Padding shorter prompts on the left changes nothing: samples from a peaked distribution are the same."""
    prompts = [conversation("Write."), conversation("Write a program for the competition. " * 5)]
    policy = TransformersPolicy(tiny_model)
    policy.model.lm_head.weight.data *= 1e4
    together = policy.sample(prompts, 8, [0, 1])
    assert together == [policy.sample([prompt], 8, [0])[0] for prompt in prompts]
    for completion, prompt in zip(together, prompts, strict=True):
        assert completion.prompt_tokens == policy.count_tokens(prompt)
        assert 0 < completion.tokens <= 8
    assert policy.sample([], 8, []) == []


def test_a_seed_fixes_the_samples(tiny_model):
    policy = TransformersPolicy(tiny_model)
    first, again, other = (policy.sample([conversation("Write.")] * 4, 8, range(s, s + 4)) for s in (0, 0, 9))
    assert first == again != other
    assert len(set(texts(first))) > 1


@pytest.mark.parametrize("is_faster", [False, True])
def test_a_cpu_samples_in_the_faster_type(tiny_model, tmp_path, monkeypatch, is_faster):
    """Snapshots of the Hub have 16 bits, in which a CPU without instructions for them takes several times as long."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("trl_mle.models.transformers_model.is_bfloat16_faster", lambda: is_faster)
    AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.bfloat16).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(tmp_path)
    model = TransformersPolicy(str(tmp_path)).model
    assert model.dtype == (torch.bfloat16 if is_faster else torch.float32)


@pytest.fixture(scope="module")
def adapter(tiny_model, tmp_path_factory):
    """An adapter as the trainer saves it, with weights far from zero."""
    folder = tmp_path_factory.mktemp("adapter")
    config = LoraConfig(target_modules=["q_proj", "v_proj"], init_lora_weights=False, task_type="CAUSAL_LM")
    get_peft_model(AutoModelForCausalLM.from_pretrained(tiny_model), config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(folder)
    return str(folder)


def test_a_lora_adapter_comes_with_its_base_model(tiny_model, adapter, tmp_path):
    check_policy(adapter)
    base, adapted = TransformersPolicy(tiny_model), TransformersPolicy(adapter)
    assert base.identity.split()[1] != adapted.identity.split()[1]
    prompts = [conversation("Write.")] * 4
    assert base.sample(prompts, 8, range(4)) != adapted.sample(prompts, 8, range(4))

    for name in ("adapter_config.json", "adapter_model.safetensors"):
        shutil.copy(Path(adapter, name), tmp_path)
    bare = TransformersPolicy(str(tmp_path))
    assert bare.sample(prompts, 8, range(4)) == adapted.sample(prompts, 8, range(4))


def test_weights_under_other_names_are_refused(tiny_model, tmp_path):
    """transformers fills in random ones."""
    shutil.copytree(tiny_model, tmp_path / "compiled")
    path = tmp_path / "compiled" / "model.safetensors"
    save_file({f"_orig_mod.{name}": value for name, value in load_file(path).items()}, path, {"format": "pt"})
    with pytest.raises(ValueError, match=r"compiled lacks .* of the model's weights, such as "):
        TransformersPolicy(str(path.parent))
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    with pytest.raises(OSError, match=r"compiled: a file of weights is not whole, or a pointer of Git LFS: "):
        TransformersPolicy(str(path.parent))


@pytest.fixture
def server():
    server = OpenAIServer(lambda prompt, max_tokens: (f"answer to {prompt}", 5), names=("small", "large"))
    yield server
    server.kill()


def test_an_endpoint_is_asked_with_seeds_at_temperature_1(server):
    policy = load_policy(f"{server.url}#large")
    assert isinstance(policy, EndpointPolicy)
    assert policy.identity == f"large at {server.url}"
    completions = policy.sample([conversation(f"{i}") for i in range(3)], 8, [7, 8, 9])
    assert texts(completions) == ["answer to 0", "answer to 1", "answer to 2"]
    assert [(completion.tokens, completion.prompt_tokens) for completion in completions] == [(5, 1)] * 3
    asked = {request["messages"][0]["content"]: request for request in server.requests}
    assert [asked[f"{i}"]["seed"] for i in range(3)] == [7, 8, 9]
    for request in server.requests:
        assert (request["model"], request["temperature"], request["max_tokens"]) == ("large", 1.0, 8)


def test_an_endpoint_goes_on_with_what_was_begun(server):
    prompt = [*conversation("Write."), {"role": "assistant", "content": "```python\nimport"}]
    completions = load_policy(f"{server.url}#small").sample([prompt, conversation("Say.")], 8, [0, 1])
    assert texts(completions) == ["```python\nimportanswer to Write.", "answer to Say."]
    asked = {request["messages"][0]["content"]: request for request in server.requests}
    assert asked["Write."]["messages"] == prompt
    assert asked["Write."]["continue_final_message"] is True
    assert asked["Write."]["add_generation_prompt"] is False
    assert asked["Write."]["chat_template_kwargs"] == {"enable_thinking": False}  # as in training
    assert not {"continue_final_message", "chat_template_kwargs"} & set(asked["Say."])


def test_an_endpoint_that_limits_requests_is_asked_again(server):
    asked = Counter()

    def limit(body):
        asked[body["seed"]] += 1
        return 429 if asked[body["seed"]] <= 6 else None

    server.meddle = limit
    completions = load_policy(f"{server.url}#small").sample([conversation("Hi")] * 2, 8, [0, 1])
    assert texts(completions) == ["answer to Hi"] * 2
    with pytest.raises(ValueError, match="serves small, large: name one"):
        check_policy(server.url)


def test_a_folder_without_a_model_names_its_checkpoints(tmp_path):
    (tmp_path / "checkpoint-10").mkdir()
    with pytest.raises(FileNotFoundError, match=r"holds no model: use a checkpoint in it \(checkpoint-10\)$"):
        check_policy(str(tmp_path))
    with pytest.raises(OSError, match=r"^cannot load the policy /no/such, which is not a local folder: "):
        check_policy("/no/such")


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("config.json", '{"model_type": "qwen2", "hidden_size": "x"}', "cannot load the policy .*'hidden_size'"),
        ("adapter_config.json", "{}", "names no base_model_name_or_path"),
        ("tokenizer.json", None, "has no tokenizer"),  # the other files would render prompts without words
        ("chat_template.jinja", None, "has no chat template"),
    ],
)
def test_what_a_folder_lacks_is_noticed_before_it_is_loaded(tiny_model, tmp_path, file, text, message):
    shutil.copytree(tiny_model, tmp_path, dirs_exist_ok=True)
    (tmp_path / file).unlink(missing_ok=True)
    if text is not None:
        (tmp_path / file).write_text(text)
    with pytest.raises((OSError, ValueError), match=f"^.*{message}.*$"):
        check_policy(str(tmp_path))


def test_a_policy_is_asked_as_in_training(tmp_path):
    checkpoint = tmp_path / "policy" / "checkpoint-4"
    checkpoint.mkdir(parents=True)
    (tmp_path / "policy" / "arguments.json").write_text('{"begin_program": false, "max_completion_length": 384}')
    assert completion_length(["org/model", str(checkpoint)]) == 384
    assert completion_length(["org/model"]) == 1024
    assert how_to_ask(str(checkpoint), None, "default") == (False, "default")
