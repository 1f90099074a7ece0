"""`trl-mle serve`: serves competitions through OpenEnv's protocol."""

import ipaddress
import os
import socket
from dataclasses import dataclass, field

from trl_mle.competitions import TaskSet
from trl_mle.execution.options import ExecutorArguments, make_executor
from trl_mle.instrumentation import AstInstrumenter
from trl_mle.rewards import MLEReward
from trl_mle.showing import PlainConsole


TOKEN = "TRL_MLE_TOKEN"  # the environment variable


@dataclass
class ServeArguments(ExecutorArguments):
    """
    Serves competitions through OpenEnv's protocol: `reset` returns the task, `step` runs a program in the sandbox and
    returns outcome, output, score, reward and Δt. Clients on other machines need the token in TRL_MLE_TOKEN.
    """

    competitions: list[str] = field(
        default_factory=list, metadata={"help": "Ids, folders, ranges or lists of the competitions."}
    )
    host: str = field(default="127.0.0.1", metadata={"help": "Address to listen on."})
    port: int = field(default=8000, metadata={"help": "Port to listen on."})
    max_sessions: int = field(default=64, metadata={"help": "Maximum number of sessions; further ones are refused."})
    max_programs: int = field(default=1, metadata={"help": "Programs per episode; the last one is graded."})
    holdout: float = field(default=0.0, metadata={"help": "Share of the hidden rows whose scores stay on the server."})
    data_dir: str | None = field(default=None, metadata={"help": "Folder with MLE-bench's prepared competitions."})
    output_dir: str = field(default="served", metadata={"help": "Folder for the record of the programs."})

    def __post_init__(self) -> None:
        if not self.competitions:
            raise ValueError("--competitions: name at least one")
        for name in ("max_sessions", "max_programs"):
            if getattr(self, name) < 1:
                raise ValueError(f"--{name} must be at least 1, got {getattr(self, name)}")
        if not 0 < self.port < 2**16:
            raise ValueError(f"--port must be from 1 to {2**16 - 1}, got {self.port}")
        if self.reuse_results:
            raise ValueError(
                "--reuse_results: the server runs every program, because a client that disconnects ends its program"
            )
        if not _is_this_machine(self.host) and not os.environ.get(TOKEN):
            raise ValueError(
                f"--host {self.host} can be reached from other machines: set {TOKEN} to a token for the clients"
            )


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def serve(args: ServeArguments) -> None:
    """
    Serves until interrupted.

    Raises:
        `ValueError`: OpenEnv is not installed, or the port is taken.
    """
    try:
        from trl_mle.environments.server import listen, make_app
    except ModuleNotFoundError as error:
        raise ValueError(f"{error.name} is not installed: pip install 'trl-mle[openenv]'") from error

    try:
        family = socket.AF_INET6 if ":" in args.host else socket.AF_INET
        socket.create_server((args.host, args.port), family=family).close()
    except OSError as error:
        raise ValueError(f"cannot listen on {args.host}:{args.port}: {error.strerror}") from error
    tasks = TaskSet(args.competitions, args.data_dir, args.holdout)
    with make_executor(args) as executor:
        for name in tasks.few():
            executor.check(tasks[name])
        reward = MLEReward(tasks, executor, AstInstrumenter(), show_progress=False, log_dir=args.output_dir)
        app = make_app(reward, args.max_programs, args.max_sessions, os.environ.get(TOKEN) or None)
        PlainConsole(stderr=True).print(
            f"{executor.description}; {', '.join(args.competitions)} at ws://{args.host}:{args.port}", soft_wrap=True
        )
        listen(app, args.host, args.port)
