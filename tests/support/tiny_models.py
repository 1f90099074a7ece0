"""Models of some ten thousand parameters, created in a second."""

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


# Tokens of `program_model`
LINES = [f"x{i} = {i}\n" for i in range(24)]
# Tokens of `solution_model`: about half of its programs are valid solutions of any competition
SUBMIT = (
    "import pandas as pd; pd.read_csv('input/sample_submission.csv').to_csv('submission.csv', index=False)  # {i}\n"
)
SOLUTION_LINES = [SUBMIT.format(i=i) if i % 8 == 0 else line for i, line in enumerate(LINES)]


def prompts():
    """Texts of the prompts about two competitions."""
    from trl_mle.competitions import load_competition
    from trl_mle.execution import Limits
    from trl_mle.prompts import improve_prompt, scratch_prompt

    requests = []
    for comp in map(load_competition, ("wine", "diabetes")):
        requests.append(scratch_prompt(comp))
        for failed in (False, True):
            requests.append(improve_prompt(comp, LINES[0], "epoch 0: loss 0.1", Limits(), 1, lambda prompt: 0, failed))
    return [message["content"] for prompt in requests for message in prompt]


def save_tiny_model(folder, texts, vocab_size, lines=(), **sizes):
    # Imported here: most rooms are tested without torch
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, set_seed

    torch.set_num_threads(1)  # on matrices this small, several threads are slower than one
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    bpe.add_tokens(list(lines))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>", padding_side="left"
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)
    set_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2} | sizes
    config = Qwen2Config(
        **sizes, vocab_size=len(tokenizer), num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=4096,
        initializer_range=0.1, bos_token_id=None, eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    Qwen2ForCausalLM(config).save_pretrained(folder)
    return str(folder)


def save_solution_model(folder):
    """Saves a policy of the starter's size with lines of programs as tokens; returns its folder."""
    sizes = {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 3}
    return save_tiny_model(folder, prompts(), 1200, SOLUTION_LINES, **sizes)
