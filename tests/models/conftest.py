import threading

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


@pytest.fixture(scope="module")
def tiny(tiny_model):
    """The tiny model's greedy answer to one prompt, and its length, with plain transformers."""
    model = AutoModelForCausalLM.from_pretrained(tiny_model).eval()
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    lock = threading.Lock()

    def answer(prompt, max_tokens):
        messages = [{"role": "user", "content": prompt}]
        ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        with lock, torch.no_grad():
            output = model.generate(torch.tensor([ids]), max_new_tokens=max_tokens, do_sample=False)[0, len(ids) :]
        return tokenizer.decode(output, skip_special_tokens=True), len(output)

    return answer
