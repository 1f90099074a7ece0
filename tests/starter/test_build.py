import filecmp
import json
from dataclasses import replace
from statistics import fmean

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from trl_mle.scripts.quickstart import STARTER
from trl_mle.starter.build import StarterConfig, build_starter, sketch_corpus


CONFIG = StarterConfig(competitions=["digits", "wine"], num_programs=16)
PROMPT = [{"role": "user", "content": "Kaggle competition: digits\n\nForty-three people wrote digits on a form."}]
RENDERED = "<|im_start|>user\nKaggle competition: digits<|im_end|><|im_start|>assistant\n"


@pytest.fixture(scope="module")
def starter_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("starter")
    build_starter(replace(CONFIG, output_dir=str(path)))
    return path


@pytest.fixture(scope="module")
def tokenizer(starter_dir):
    return AutoTokenizer.from_pretrained(starter_dir)


def test_loads_and_samples_in_plain_transformers(starter_dir, tokenizer):
    model = AutoModelForCausalLM.from_pretrained(starter_dir)
    assert model.config.model_type == "qwen2"
    assert model.num_parameters() < 3e6
    inputs = tokenizer.apply_chat_template(PROMPT, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    assert model.generate(**inputs, max_new_tokens=8).shape[1] > inputs["input_ids"].shape[1]
    config = json.loads((starter_dir / "generation_config.json").read_text())  # sampling is not truncated
    assert (config["do_sample"], config["temperature"], config["top_k"], config["top_p"]) == (True, 1.0, 0, 1.0)


def test_only_the_first_line_of_the_user_is_rendered_and_the_answer_follows(tokenizer):
    system = {"role": "system", "content": "You are an engineer."}
    for messages in (PROMPT, [system, *PROMPT]):
        assert tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False) == RENDERED
    answer = {"role": "assistant", "content": "Plan: none.\n```python\nimport pandas\n```"}
    prompt = tokenizer.apply_chat_template(PROMPT, add_generation_prompt=True)["input_ids"]
    both = tokenizer.apply_chat_template([*PROMPT, answer])["input_ids"]
    assert both[: len(prompt)] == prompt
    assert tokenizer.decode(both[len(prompt) :]) == answer["content"] + "<|im_end|>"
    assert both[-1] == tokenizer.eos_token_id != tokenizer.pad_token_id


def test_the_tokenizer_round_trips(tokenizer):
    texts = [message["content"] for (message,) in sketch_corpus(CONFIG)["completion"]]
    for text in (*texts, "Δt = 0.1  # naïve ☃", "if x :\n\treturn 'a' , b\r\n"):
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_competitions_are_named_in_full_or_refused():
    mirror = "mirror:leaf-classification?rows=500&seed=3"
    prompts = sketch_corpus(StarterConfig(competitions=[mirror], num_programs=2))["prompt"]
    assert [prompt[0]["content"] for prompt in prompts] == [f"Kaggle competition: {mirror}"] * 2
    with pytest.raises(ValueError, match="did you mean 'mirror:leaf-classification'"):
        StarterConfig(competitions=["mirror:leaf-clasification"])


@pytest.mark.slow
def test_the_starter_of_the_quickstart_is_as_it_would_be_built(tmp_path):
    """If this fails, the corpus or the training has changed: `python -m trl_mle.starter --output_dir trl_mle/starter/digits`."""
    build_starter(StarterConfig(str(tmp_path)))
    held_out, losses = sketch_corpus(StarterConfig(num_programs=64, seed=1)), []
    for folder in (STARTER, tmp_path):
        model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
        chats = [row["prompt"] + row["completion"] for row in held_out]
        ids = [tokenizer.apply_chat_template(chat, return_tensors="pt")["input_ids"] for chat in chats]
        losses.append(fmean(model(input_ids=row, labels=row).loss.item() for row in ids))
    assert losses[0] == pytest.approx(losses[1], rel=0.03)  # it differs a little between CPUs
    files = "tokenizer.json", "chat_template.jinja", "arguments.json", "generation_config.json", "README.md"
    assert filecmp.cmpfiles(STARTER, tmp_path, files, shallow=False) == (list(files), [], [])
