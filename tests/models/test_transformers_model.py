import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from support.advised_models import MORE_ADVICE, advised
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed

from trl_mle.models import LanguageModelError
from trl_mle.models.transformers_model import TransformersModel, generate


PROMPTS = [
    "Hi",
    "Write a program for the competition. " * 20,
    "import pandas as pd",
    "",
    "import pandas as pd\ntrain = 1\n" * 8,
]


@pytest.mark.parametrize("padding_side", ["left", "right"])
def test_batch_equals_one_by_one(tiny_model, tiny, tmp_path, padding_side):
    folder = shutil.copytree(tiny_model, tmp_path / "model")
    AutoTokenizer.from_pretrained(tiny_model, padding_side=padding_side).save_pretrained(folder)
    for batch_size in (1, 3, 16):
        completions = TransformersModel(str(folder), batch_size=batch_size).complete(PROMPTS, 12)
        assert [completion.text for completion in completions] == [tiny(prompt, 12)[0] for prompt in PROMPTS]
        assert [completion.tokens for completion in completions] == [tiny(prompt, 12)[1] for prompt in PROMPTS]
    assert TransformersModel(tiny_model).complete([], 12) == []


def test_greedy_whatever_the_models_own_settings_are(tiny_model, tiny, tmp_path):
    """Chat models come with a temperature and a repetition penalty, which would spoil answers that repeat a program."""
    folder = advised(tiny_model, tmp_path / "model")
    completions = TransformersModel(str(folder)).complete(PROMPTS, 24)
    assert [completion.text for completion in completions] == [tiny(prompt, 24)[0] for prompt in PROMPTS]


def test_a_tokenizer_without_a_padding_token(tiny_model, tiny, tmp_path):
    folder = shutil.copytree(tiny_model, tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.pad_token = None
    tokenizer.save_pretrained(folder)
    assert AutoTokenizer.from_pretrained(folder).pad_token is None
    completions = TransformersModel(str(folder)).complete(PROMPTS, 12)
    assert [completion.text for completion in completions] == [tiny(prompt, 12)[0] for prompt in PROMPTS]


def test_random_generators_stay(tiny_model):
    model = TransformersModel(tiny_model)
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    model.complete(PROMPTS, 8)
    assert (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == before


def test_an_answer_that_takes_too_long_ends(tiny_model):
    model = TransformersModel(tiny_model)
    prompts = ["Write a program.", "Write another."]
    whole = generate(model.model, model.tokenizer, prompts, 40, seed=0)
    cut = generate(model.model, model.tokenizer, prompts, 40, seed=0, max_time_s=0.0)
    assert max(completion.tokens for completion in whole) > 1
    assert [completion.tokens for completion in cut] == [1, 1]
    assert all(one.text.startswith(other.text) for one, other in zip(whole, cut, strict=True))


def test_model_without_chat_template_is_refused(tiny_model, tmp_path):
    folder = shutil.copytree(tiny_model, tmp_path / "model")
    Path(folder, "chat_template.jinja").unlink()
    with pytest.raises(LanguageModelError, match="has no chat template"):
        TransformersModel(str(folder))


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
