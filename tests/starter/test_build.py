import json
import re

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from trl_mle.competitions import load_competition
from trl_mle.execution import Limits
from trl_mle.prompts import extract_code, improve_prompt
from trl_mle.starter.build import StarterConfig, build_starter, sketch_corpus, train_tokenizer


CONFIG = StarterConfig(competitions=["digits", "wine"], num_programs=32)
PROMPT = [{"role": "user", "content": "Kaggle competition: digits\n\nForty-three people wrote digits on a form."}]
RENDERED = "<|im_start|>user\nKaggle competition: digits<|im_end|><|im_start|>assistant\n"


@pytest.fixture(scope="module")
def starter_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("starter")
    build_starter(StarterConfig(str(path), CONFIG.competitions, CONFIG.num_programs), max_steps=2)
    return path


@pytest.fixture(scope="module")
def tokenizer(starter_dir):
    return AutoTokenizer.from_pretrained(starter_dir)


def test_loads_and_samples_in_plain_transformers(starter_dir, tokenizer):
    model = AutoModelForCausalLM.from_pretrained(starter_dir)
    assert model.config.model_type == "qwen2"
    assert model.num_parameters() < 3e6
    inputs = tokenizer.apply_chat_template(PROMPT, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    output = model.generate(**inputs, max_new_tokens=8)
    assert output.shape[1] > inputs["input_ids"].shape[1]
    assert torch.isfinite(model(**inputs).logits).all()


def test_sampling_is_not_truncated(starter_dir):
    config = json.loads((starter_dir / "generation_config.json").read_text())
    assert (config["do_sample"], config["temperature"], config["top_k"], config["top_p"]) == (True, 1.0, 0, 1.0)


def test_only_the_first_line_of_the_user_is_rendered(tokenizer):
    system = {"role": "system", "content": "You are an engineer."}
    for messages in (
        PROMPT,
        [system, *PROMPT],
        [{"role": "user", "content": PROMPT[0]["content"].partition("\n")[0]}],
    ):
        assert tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False) == RENDERED


def test_of_an_improve_prompt_the_previous_program_is_rendered_and_what_it_printed(tokenizer):
    program = 'import pandas as pd\n\nprint("```")\ntrain = pd.read_csv("input/train.csv")'

    def count(prompt):
        return len(tokenizer.apply_chat_template(prompt, add_generation_prompt=True)["input_ids"])

    noise = "milestone: imports\nreport: loss = 1\n/usr/lib/python/warnings.py:1: FutureWarning: soon"
    for output, more, expected in (
        (noise, {}, f"\nImprove:\n{program}\nPrinted: "),
        (f"{noise}\n0.8123\nmilestone: submission\n0.7", {}, f"\nImprove:\n{program}\nPrinted: 0.8123"),
        ("0.8123", {"test_score": 0.5}, f"\nImprove:\n{program}\nPrinted: 0.8123"),
        (noise, {"failed": True}, ""),  # the starter is not trained to repair
    ):
        prompt = improve_prompt(load_competition("digits"), program, output, Limits(5), 1024, count, **more)
        rendered = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=False)
        assert rendered == RENDERED.replace("<|im_end|>", f"{expected}<|im_end|>", 1)


def test_a_share_of_the_corpus_answers_improve_prompts():
    corpus = sketch_corpus(
        StarterConfig(
            competitions=["digits", "mirror:tweet-sentiment-extraction"], num_programs=200, improve_share=0.25
        )
    )
    tokenizer = train_tokenizer(corpus)
    assert len(corpus) == 400
    improving = [row for row in corpus if "\n" in row["prompt"][0]["content"]]
    assert len(improving) == 100
    for row in improving:
        program = extract_code(row["prompt"][0]["content"])
        rendered = tokenizer.apply_chat_template(row["prompt"], add_generation_prompt=True, tokenize=False)
        assert f"\nImprove:\n{program.strip()}\nPrinted: " in rendered
    checked = [row["prompt"][0]["content"] for row in improving if "cross_val_score" in row["prompt"][0]["content"]]
    assert checked
    assert all(re.search(r"It printed:\n\n```\n0\.\d{4}\n```", content) for content in checked)
    both = tokenizer.apply_chat_template([row["prompt"] + row["completion"] for row in corpus])["input_ids"]
    assert max(map(len, both)) < 1536  # training does not cut its examples


def test_the_prompt_is_a_prefix_of_prompt_and_completion(tokenizer):
    answer = {"role": "assistant", "content": "Plan: none.\n```python\nimport pandas\n```"}
    prompt = tokenizer.apply_chat_template(PROMPT, add_generation_prompt=True)["input_ids"]
    both = tokenizer.apply_chat_template([*PROMPT, answer])["input_ids"]
    assert both[: len(prompt)] == prompt
    assert tokenizer.decode(both[len(prompt) :]) == answer["content"] + "<|im_end|>"
    assert both[-1] == tokenizer.eos_token_id != tokenizer.pad_token_id


def test_the_tokenizer_round_trips(tokenizer):
    corpus = sketch_corpus(CONFIG)
    trained = train_tokenizer(corpus)
    for (message,) in corpus["completion"]:
        ids = tokenizer(message["content"])["input_ids"]
        assert ids == trained(message["content"])["input_ids"]  # AutoTokenizer loads the trained tokenizer
        assert tokenizer.decode(ids) == message["content"]
    for text in ("Δt = 0.1  # naïve ☃", "if x :\n\treturn 'a' , b\r\n"):
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_a_mirror_of_any_size_is_known_by_its_own_name():
    config = StarterConfig(competitions=["mirror:leaf-classification?rows=500&seed=3"], num_programs=2)
    prompts = [prompt[0]["content"] for prompt in sketch_corpus(config)["prompt"]]
    assert prompts == ["Kaggle competition: mirror:leaf-classification?rows=500&seed=3"] * 2


def test_what_is_not_covered_is_refused():
    with pytest.raises(ValueError, match="improve_share must be between 0 and 1"):
        StarterConfig(improve_share=2)
    with pytest.raises(ValueError, match="did you mean 'mirror:leaf-classification'"):
        StarterConfig(competitions=["mirror:leaf-clasification"])
