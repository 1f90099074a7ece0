"""Chat templates of models that think before they answer."""

import shutil
from pathlib import Path

from transformers import AutoTokenizer


_MESSAGES = "{%- for message in messages %}{{- message.role + '\\n' + message.content + '\\n' }}{%- endfor %}"
# Thinks unless it is told not to, as Qwen3 does
THINKS = (
    _MESSAGES + "{%- if add_generation_prompt %}{{- 'assistant\\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}{%- endif %}"
)
# Begins a thought whatever it is told, as DeepSeek-R1's distillations do
ALWAYS_THINKS = _MESSAGES + "{%- if add_generation_prompt %}{{- 'assistant\\n<think>\\n' }}{%- endif %}"


def with_template(model: str, folder: Path, template: str) -> str:
    """A copy of a model with another chat template."""
    shutil.copytree(model, folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    return str(folder)
