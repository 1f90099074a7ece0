"""A policy so small that it can only learn which of a few programs to write: each program is one token."""

from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, set_seed


SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

# Settings of all training runs of such a policy: it answers with one token, and only the log is kept
TRAINING = {
    "use_cpu": True,
    "bf16": False,
    "report_to": "none",
    "save_strategy": "no",
    "disable_tqdm": True,
    "logging_steps": 1,
    "max_completion_length": 1,
    "improve_probability": 0.0,
}


def save_policy(folder: Path, programs: list[str], seed: int) -> dict:
    """
    Saves a random policy and its tokenizer.

    Args:
        folder (`Path`):
            Output folder.
        programs (`list[str]`):
            The programs that it can write, at first with nearly equal probability.
        seed (`int`):
            Seed of its weights.

    Returns:
        `dict`: Generation arguments with which it writes only these programs, one at a time.
    """
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({text: i for i, text in enumerate([*SPECIAL, *letters])}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.add_tokens(programs)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", padding_side="left"
    )
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    set_seed(seed)
    config = Qwen2Config(
        vocab_size=len(fast),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        bos_token_id=None,
        eos_token_id=fast.eos_token_id,
        pad_token_id=fast.pad_token_id,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    return {"suppress_tokens": list(range(len(fast) - len(programs)))}
