import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from support.advised_models import MORE_ADVICE, advised
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed

from trl_mle.models.transformers_model import TransformersModel, generate


PROMPTS = [
    "Hi",
    "Write a program for the competition. " * 20,
    "import pandas as pd",
    "",
    "import pandas as pd\ntrain = 1\n" * 8,
]


@pytest.mark.parametrize("settings", [{"padding_side": "left"}, {"padding_side": "right"}, {"pad_token": None}])
def test_a_batch_is_answered_greedily_as_one_by_one(tiny_model, tiny, tmp_path, settings):
    """Chat models come with a temperature and a repetition penalty, which would spoil answers that repeat a program."""
    folder = advised(tiny_model, tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    for name, value in settings.items():
        setattr(tokenizer, name, value)
    tokenizer.save_pretrained(folder)
    assert all(getattr(AutoTokenizer.from_pretrained(folder), name) == settings[name] for name in settings)
    expected = [tiny(prompt, 24) for prompt in PROMPTS]
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    for batch_size in (1, 3, 16):
        completions = TransformersModel(folder, batch_size=batch_size).complete(PROMPTS, 24)
        assert [(completion.text, completion.tokens) for completion in completions] == expected
    assert (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == before


def test_an_answer_that_takes_too_long_ends(tiny_model):
    model = TransformersModel(tiny_model)
    assert model.complete(["Write a program."], 40)[0].tokens > 1
    cut = generate(model.model, model.tokenizer, ["Write a program.", "Write another."], 40, max_time_s=0.0)
    assert [completion.tokens for completion in cut] == [1, 1]


def test_samples_are_those_of_plain_transformers(tiny_model, tmp_path):
    """With a seed, from the whole distribution, despite the model's own settings and earlier greedy answers."""
    folder = advised(tiny_model, tmp_path / "model")
    model, plain = (AutoModelForCausalLM.from_pretrained(path).eval() for path in (folder, tiny_model))
    tokenizer = AutoTokenizer.from_pretrained(tiny_model, padding_side="right")
    conversations = [[{"role": "user", "content": text}] for text in PROMPTS]
    texts = [
        tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=False) for prompt in conversations
    ]
    inputs = tokenizer(texts, padding=True, padding_side="left", return_tensors="pt")
    for seed in (0, 1):
        set_seed(seed)
        with torch.no_grad():
            outputs = plain.generate(**inputs, max_new_tokens=24, do_sample=True, top_k=0)
        answers = tokenizer.batch_decode(outputs[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        for asked in (PROMPTS, conversations):  # a text is like a conversation of one message
            generate(model, tokenizer, PROMPTS, 4)
            completions = generate(model, tokenizer, asked, 24, seed=seed)
            assert [completion.text for completion in completions] == answers
            assert [completion.prompt_tokens for completion in completions] == inputs["attention_mask"].sum(1).tolist()
    assert MORE_ADVICE.items() <= model.generation_config.to_dict().items()  # saved with the model as they were


def test_torch_comes_only_with_a_model():
    """The executor imports the instrumentation, and programs wait for that."""
    code = "import sys, trl_mle.instrumentation, trl_mle.models; trl_mle.models.Completion('')"
    code += "; print({'torch', 'transformers', 'openai'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "set()\n"
