"""Tests against a real vLLM server with tiny models: `make test-vllm`. Without a GPU the server starts in a minute."""

import pytest
import torch
from support.programs import ASKED_ABOUT, ideal
from support.tiny_models import CHAT_TEMPLATE
from support.vllm_server import VllmServer
from transformers import set_seed

from trl_mle.instrumentation import MILESTONES, LmInstrumenter
from trl_mle.models import EndpointModel
from trl_mle.models.transformers_model import TransformersModel
from trl_mle.starter.build import StarterConfig, make_model, sketch_corpus, train_tokenizer


pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

PROGRAM = ASKED_ABOUT.format(number=1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Folder of the starter's model after it has memorised the right answers about one program."""
    set_seed(0)
    tokenizer = train_tokenizer(sketch_corpus(StarterConfig(num_programs=200)))
    tokenizer.chat_template = CHAT_TEMPLATE  # the starter's own shows the model only the first line of a prompt
    model = make_model(tokenizer)
    model.config.max_position_embeddings = 4096  # room to rewrite a program
    instrumenters = {mode: LmInstrumenter(model=None, mode=mode) for mode in ("quote", "rewrite")}
    answers = {mode: ideal(item._prompt(PROGRAM), 500)[0] for mode, item in instrumenters.items()}
    sequences = []
    for mode, instrumenter in instrumenters.items():
        messages = [{"role": "user", "content": instrumenter._prompt(PROGRAM)}]
        prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        answer = tokenizer(answers[mode] + "<|im_end|>")["input_ids"]
        sequences.append((torch.tensor([prompt + answer]), torch.tensor([[-100] * len(prompt) + answer])))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(500):
        outputs = [(model(input_ids=ids, labels=labels), labels[:, 1:]) for ids, labels in sequences]
        right = [output.logits[:, :-1].argmax(-1) == labels for output, labels in outputs]
        known = all((hit | (labels == -100)).all() for hit, (_, labels) in zip(right, outputs, strict=True))
        loss = sum(output.loss for output, _ in outputs)
        if known and loss < 0.05:  # with some margin
            break
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    folder = tmp_path_factory.mktemp("trained")
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    completions = TransformersModel(str(folder)).complete([i._prompt(PROGRAM) for i in instrumenters.values()], 500)
    assert [completion.text for completion in completions] == list(answers.values())
    return folder


@pytest.fixture(scope="module")
def trained_server(trained, tmp_path_factory):
    server = VllmServer(trained, tmp_path_factory.mktemp("vllm") / "server.log")
    server.start()
    yield server
    server.kill()


def test_instruments_by_right_answers(trained_server):
    for mode in ("quote", "rewrite"):
        instrumenter = LmInstrumenter(EndpointModel(f"{trained_server.url}/v1"), mode)
        program = instrumenter.instrument(PROGRAM)
        metrics = instrumenter.metrics()
        assert (program.milestones, metrics["lm_rate"]) == (MILESTONES, 1.0), metrics
        print(f"\n{mode}: {metrics['tokens_per_program']:.0f} tokens")


def test_generates_what_transformers_generates(trained_server, trained):
    prompts = [f"Kaggle competition: {name}" for name in ("digits", "wine", "diabetes", "breast-cancer")]
    served = EndpointModel(f"{trained_server.url}/v1").complete(prompts, 32)
    assert served == TransformersModel(str(trained)).complete(prompts, 32)
