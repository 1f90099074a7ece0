"""A real vLLM server for tests."""

import os
import signal
import socket
import subprocess
import time
import urllib.request

import torch

from support.vllm_on_cpu import ENVIRONMENT


class VllmServer:
    """`vllm serve` in its own environment (`$VLLM_PYTHON`); on a CPU in 32 bits and not compiled."""

    def __init__(self, model, log, *more, **environment):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.log = log
        self.environment = environment
        # It ends, and ends its engine, when pytest does, for any reason
        command = ["setpriv", "--pdeathsig", "TERM", os.environ["VLLM_PYTHON"]]
        command += ["-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
        command += ["--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(port)]
        command += ["--max-model-len", "4096", "--max-num-seqs", "64"]
        if not torch.cuda.is_available():
            command += ["--enforce-eager", "--dtype", "float32"]
        # Otherwise an untrained model, constrained by a schema, writes blanks until its tokens are used up
        command += ["--structured-outputs-config", '{"backend": "xgrammar", "disable_any_whitespace": true}']
        self.command = [*command, *more]
        self.process = None

    def start(self):
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment |= ENVIRONMENT | self.environment
        with self.log.open("a") as file:
            self.process = subprocess.Popen(
                self.command, env=environment, cwd=self.log.parent, stdout=file, stderr=file, start_new_session=True
            )
        started = time.monotonic()
        while not self.is_up():
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            assert time.monotonic() < started + 300, self.log.read_text()[-3000:]
            time.sleep(0.5)
        print(f"\nvLLM up after {time.monotonic() - started:.0f} s")

    def is_up(self):
        try:
            return urllib.request.urlopen(f"{self.url}/health", timeout=5).status == 200
        except OSError:
            return False

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
