"""Builds a checkpoint from sketched programs: corpus, tokenizer, model, supervised fine-tuning."""

import random
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from datasets import Dataset
from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer, set_seed
from transformers.trainer_callback import ProgressCallback
from trl import SFTConfig, SFTTrainer

from trl_mle.competitions import load_competition
from trl_mle.execution.options import option
from trl_mle.rewards.progress import keep_arguments
from trl_mle.showing import PlainConsole, for_markdown
from trl_mle.starter.grammar import TASKS, Sketcher, find_tasks
from trl_mle.trainer.progress_callback import TimeLeftCallback


CHAT_TEMPLATE = Path(__file__).with_name("chat_template.jinja").read_text(encoding="utf-8")
README = Path(__file__).with_name("model_card.md").read_text(encoding="utf-8")


@dataclass
class StarterConfig:
    """Configuration of the starter policy."""

    output_dir: str = option("outputs/starter", "Where to save the checkpoint.")
    competitions: list[str] = option(
        ["digits"], f"Competitions that it learns: {', '.join(TASKS)}, or folders that `trl-mle new` made."
    )
    num_programs: int = option(5760, "Programs to sketch for each competition.")
    seed: int = option(0, "Seed of the corpus, the weights and the order of training.")

    def __post_init__(self) -> None:
        for competition in self.competitions:
            find_tasks(competition)  # or a ValueError


def sketch_corpus(config: StarterConfig) -> Dataset:
    """Sketches the programs. Each row has a `prompt` and a `completion`, lists of one message each."""
    rng = random.Random(config.seed)
    rows = []
    for competition in config.competitions:
        is_own = competition.partition("?")[0] not in TASKS  # prompts name it by its id, not by its folder
        name = load_competition(competition).id if is_own else competition
        prompt = [{"role": "user", "content": f"Kaggle competition: {name}"}]
        sketcher = Sketcher(competition, rng)
        for _ in range(config.num_programs):
            rows.append({"prompt": prompt, "completion": [{"role": "assistant", "content": sketcher.sketch()}]})
    return Dataset.from_list(rows)


def train_tokenizer(corpus: Dataset, vocab_size: int = 768) -> Qwen2Tokenizer:
    """Trains a byte-level BPE tokenizer, with a chat template that renders only what such a policy can read."""
    texts = [messages[0]["content"] for column in ("prompt", "completion") for messages in corpus[column]]
    # Qwen2's own pipeline, because AutoTokenizer loads it for a Qwen2 model. It splits the text into few words.
    tokenizer = Qwen2Tokenizer().train_new_from_iterator(
        ["user\nassistant\n", *texts],
        vocab_size=vocab_size,
        new_special_tokens=["<|im_start|>", "<|im_end|>"],
        show_progress=False,
    )
    tokenizer.eos_token = "<|im_end|>"
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def make_model(tokenizer: Qwen2Tokenizer) -> Qwen2ForCausalLM:
    """An untrained Qwen2 model with three layers, in float32."""
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(tokenizer),
            hidden_size=128,
            intermediate_size=384,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=2048,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    # Plain sampling: RL needs samples from the policy itself, not from a sharpened or truncated one.
    model.generation_config = GenerationConfig(
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        max_new_tokens=512,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return model


def _training_arguments(config: StarterConfig) -> SFTConfig:
    args = SFTConfig(
        output_dir=config.output_dir,
        num_train_epochs=1,  # sketching another program is cheaper than training twice on the same one
        # Many small steps: with batches of 64, and so a quarter of the steps, hardly any program was valid.
        per_device_train_batch_size=16,
        learning_rate=6e-3,
        lr_scheduler_type="cosine",
        warmup_steps=20,
        logging_steps=0.05,  # of all: when the time left is said
        save_strategy="no",
        report_to="none",
        use_cpu=not torch.accelerator.is_available(),
        bf16=False,
        gradient_checkpointing=False,
        completion_only_loss=True,
        max_length=1536,
        seed=config.seed,
    )
    args._n_gpu = min(args.n_gpu, 1)  # DataParallel would multiply the batch
    return args


def build_starter(config: StarterConfig) -> None:
    """Trains a tiny policy from scratch on sketched programs, and saves it like any other checkpoint. Its chat
    template renders only the first line of the user's message, `Kaggle competition: <id>`."""
    start = time.perf_counter()
    console = PlainConsole()
    set_seed(config.seed)
    console.print(f"1/3 Sketching {config.num_programs} programs for each of: {', '.join(config.competitions)}")
    corpus = sketch_corpus(config)
    console.print("2/3 Training a tokenizer on them")
    tokenizer = train_tokenizer(corpus)
    model, args = make_model(tokenizer), _training_arguments(config)
    trainer = SFTTrainer(model=model, args=args, train_dataset=corpus, processing_class=tokenizer)
    console.print(f"3/3 Training {model.num_parameters():,} parameters on {args.device}")
    trainer.remove_callback(ProgressCallback)
    trainer.add_callback(TimeLeftCallback())
    trainer.train()

    folder = Path(config.output_dir)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    # It was taught to write a plan first, and is asked as it was taught
    keep_arguments(folder, {"begin_program": False})
    card = README.format(
        competitions=", ".join(map(for_markdown, config.competitions)),
        parameters=model.num_parameters(),
        programs=len(corpus),
        seed=config.seed,
    )
    (folder / "README.md").write_text(card, encoding="utf-8")
    console.print(f"Saved a starter policy to {config.output_dir} after {time.perf_counter() - start:.0f} s")
