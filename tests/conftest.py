"""What many tests share: tiny models, and the folder in which DeepSpeed compiles."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest


CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


# Tokens of `program_model`
LINES = [f"x{i} = {i}\n" for i in range(24)]
# Tokens of `solution_model`: every second program or so is a valid solution of any competition
SUBMIT = (
    "import pandas as pd; pd.read_csv('input/sample_submission.csv').to_csv('submission.csv', index=False)  # {i}\n"
)
SOLUTION_LINES = [SUBMIT.format(i=i) if i % 8 == 0 else line for i, line in enumerate(LINES)]


def pytest_sessionstart(session):
    # Whoever is killed while DeepSpeed compiles leaves a lock, and all later runs wait for it for ever. So tests share
    # no such folder with anything else, and take away the lock that an earlier session of theirs has left.
    folder = session.config.cache.mkdir("torch_extensions")
    for lock in folder.rglob("lock"):
        lock.unlink()
    os.environ["TORCH_EXTENSIONS_DIR"] = str(folder)


@pytest.fixture(scope="session", autouse=True)
def own_slots(tmp_path_factory):
    """Tests that run side by side do not wait for each other's slots, nor find them taken."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trl_mle.execution.slots.FOLDER", tmp_path_factory.mktemp("slots"))
        yield


@pytest.fixture
def broken_pillow(tmp_path):
    """A folder for PYTHONPATH, with a Pillow that needs a file which the caller can read, and no program."""
    import PIL

    real, needed, package = Path(PIL.__file__), tmp_path / "needed", tmp_path / "packages" / "PIL"
    needed.touch()
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        f"__path__.append({str(real.parent)!r})\nexec(open({str(real)!r}).read())\nopen({str(needed)!r}).close()\n"
    )
    return str(package.parent)


@pytest.fixture(scope="session")
def chat_template():
    """One that renders everything."""
    return CHAT_TEMPLATE


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """Folder of a random Qwen2 of some 30,000 parameters, with a tokenizer that knows every byte."""
    texts = ["Write a program for the competition.", "import pandas as pd"]
    return save_tiny_model(tmp_path_factory.mktemp("tiny-qwen2"), texts, vocab_size=300)


@pytest.fixture(scope="session")
def program_model(tmp_path_factory):
    """The same with tokens that are lines of Python: what it samples of them is a program. Prompts are short to it."""
    return save_tiny_model(tmp_path_factory.mktemp("program-qwen2"), prompts(), vocab_size=1200, lines=LINES)


@pytest.fixture(scope="session")
def solution_model(tmp_path_factory):
    """A policy of the starter's size, all of whose samples are programs: `path`, and the `options` it is sampled with."""
    sizes = {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 3}
    path = save_tiny_model(tmp_path_factory.mktemp("solution-qwen2"), prompts(), 1200, SOLUTION_LINES, **sizes)
    vocabulary = json.loads(Path(path, "config.json").read_text())["vocab_size"]
    wrong = [i for i in range(vocabulary - len(SOLUTION_LINES)) if i != 2]  # all but lines, and the end
    return SimpleNamespace(path=path, options={"generation_kwargs": {"suppress_tokens": wrong}})


def prompts():
    """What a policy is asked about two competitions."""
    from trl_mle.competitions import load_competition
    from trl_mle.prompts import improve_prompt, scratch_prompt

    asked = []
    for comp in map(load_competition, ("wine", "diabetes")):
        asked.append(scratch_prompt(comp, 60, 4096))
        for failed in (False, True):
            asked.append(improve_prompt(comp, LINES[0], "epoch 0: loss 0.1", 60, 4096, 1, lambda prompt: 0, failed))
    return [message["content"] for prompt in asked for message in prompt]


def save_tiny_model(folder, texts, vocab_size, lines=(), **sizes):
    # Imported here: most rooms are tested without torch
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, set_seed

    torch.set_num_threads(1)  # threads that wait for each other cost more than these matrices
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
        **sizes,
        vocab_size=len(tokenizer),
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        initializer_range=0.1,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    return str(folder)
