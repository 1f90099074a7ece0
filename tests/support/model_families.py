"""Tiny models of other families than Qwen2: each token decides the next one, so that every answer is known."""

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, LlamaTokenizer, PreTrainedTokenizerFast

from support.tiny_models import CHAT_TEMPLATE


GEMMA = (
    "{% for m in messages %}<start_of_turn>{{ m['role'] }}\n{{ m['content'] }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
# With a special token at its beginning, as the texts of Llama 2 and Mistral have
LLAMA = "<s>{% for m in messages %}[{{ m['role'] }}]\n{{ m['content'] }}\n{% endfor %}{{ '[answer]\n' }}"
NAMED = {"default": CHAT_TEMPLATE, "tool_use": "Tools! " + CHAT_TEMPLATE}
SPECIAL = ["<pad>", "<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", "<start_of_turn>", "<end_of_turn>"]


# Whether the tokenizer is SentencePiece's or byte-level, the tokens besides its own that end an answer, and the chat
# template or templates
FAMILIES = {
    "SentencePiece": (True, [], LLAMA),
    "several ends": (False, ["<end_of_turn>"], GEMMA),
    "all at once": (True, ["<end_of_turn>", "<|im_end|>"], NAMED),
}
BEGUN = "```python\nfrom sklearn.feature_extraction.text import"
GOES_ON = " TfidfVectorizer"  # after a text that ends in "t"
PROGRAM = "print(1)"  # after a line's end
AFTER_THE_END = "more"


def make_tokenizer(is_sentencepiece, template):
    names = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    if is_sentencepiece:  # transformers' own, as of Llama 2, Mistral and Phi-3
        bytes_ = [f"<0x{i:02X}>" for i in range(256)]
        texts = [*map(chr, range(33, 127)), "▁", GOES_ON.replace(" ", "▁"), PROGRAM, AFTER_THE_END]
        vocabulary = {piece: i for i, piece in enumerate([*SPECIAL, *bytes_, *texts])}
        tokenizer = LlamaTokenizer(vocab=vocabulary, merges=[], **names)
    else:
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        bpe = Tokenizer(models.BPE({piece: i for i, piece in enumerate([*SPECIAL, *alphabet])}, []))
        bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        bpe.decoder = decoders.ByteLevel()
        bpe.add_tokens([GOES_ON, PROGRAM, AFTER_THE_END])
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, **names)
    tokenizer.add_special_tokens({"additional_special_tokens": SPECIAL[4:]})
    tokenizer.chat_template = template
    return tokenizer


def save_family(folder, name):
    """Saves a model that answers with `GOES_ON` or `PROGRAM`, one token, then ends, and after the end would say
    more."""
    is_sentencepiece, more_ends, template = FAMILIES[name]
    tokenizer = make_tokenizer(is_sentencepiece, template)
    ends = [tokenizer.eos_token, *more_ends]
    size = len(tokenizer)
    width = -(-size // 8) * 8
    torch.set_num_threads(1)
    config = LlamaConfig(
        vocab_size=size, hidden_size=width, intermediate_size=8, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=4096, tie_word_embeddings=False,
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    model = LlamaForCausalLM(config)

    def id_of(text):
        piece = text.replace(" ", "▁") if is_sentencepiece else text
        known = tokenizer.get_vocab()
        return known[piece] if piece in known else tokenizer(f"-{text}", add_special_tokens=False)["input_ids"][-1]

    following = {"t": GOES_ON, "\n": PROGRAM, GOES_ON: ends[-1], PROGRAM: ends[-1], ends[-1]: AFTER_THE_END}
    following = {id_of(text): id_of(after) for text, after in following.items()}
    with torch.no_grad():
        model.model.embed_tokens.weight.copy_(torch.eye(size, width))
        model.model.layers[0].self_attn.o_proj.weight.zero_()
        model.model.layers[0].mlp.down_proj.weight.zero_()
        model.lm_head.weight.zero_()
        for token in range(size):  # the rest say more for ever
            model.lm_head.weight[following.get(token, id_of(AFTER_THE_END)), token] = 60 / width**0.5
    model.save_pretrained(folder)
    if more_ends:
        GenerationConfig(eos_token_id=[id_of(end) for end in ends]).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)
