"""`trl-mle serve`: competitions behind OpenEnv's protocol."""

import ipaddress
import os
import socket
from dataclasses import dataclass, field

from rich.console import Console

from trl_mle.competitions import load_competition
from trl_mle.execution.building import ExecutorArguments, make_executor
from trl_mle.instrumentation import AstInstrumenter
from trl_mle.rewards import MLEReward


TOKEN = "TRL_MLE_TOKEN"  # the environment variable


@dataclass
class ServeArguments(ExecutorArguments):
    """
    Serves competitions by OpenEnv's protocol: `reset` names the task, `step` runs a program in the sandbox and returns outcome, output,
    score, reward and Δt. Beyond this machine clients need a token, which TRL_MLE_TOKEN names.
    """

    competitions: list[str] = field(default_factory=list, metadata={"help": "Ids or folders of the competitions."})
    host: str = field(default="127.0.0.1", metadata={"help": "Address to listen at."})
    port: int = field(default=8000, metadata={"help": "Port to listen at."})
    max_sessions: int = field(default=64, metadata={"help": "Sessions at a time; a further one is refused."})
    max_programs: int = field(default=1, metadata={"help": "Programs in an episode; the last one is graded."})
    holdout: float = field(default=0.0, metadata={"help": "Share of the hidden rows whose scores stay on the server."})
    data_dir: str | None = field(default=None, metadata={"help": "Where MLE-bench's prepared competitions lie."})
    output_dir: str = field(default="served", metadata={"help": "Folder for the record of the programs."})

    def __post_init__(self) -> None:
        if not self.competitions:
            raise ValueError("--competitions: name one at least")
        for name in ("max_sessions", "max_programs"):
            if getattr(self, name) < 1:
                raise ValueError(f"--{name} must be at least 1, got {getattr(self, name)}")
        if self.reuse_results is not None:
            raise ValueError(
                "--reuse_results: a server runs every program, because a client that is gone ends its own"
            )
        if not _is_this_machine(self.host) and not os.environ.get(TOKEN):
            raise ValueError(
                f"--host {self.host} can be reached from elsewhere: set {TOKEN} to what clients have to send"
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
    Serves until it is interrupted.

    Args:
        args ([`ServeArguments`]):
            What, and where.

    Raises:
        `ValueError`: OpenEnv is not installed, or the port is taken.
    """
    try:
        import uvicorn

        from trl_mle.environments.server import MAX_BYTES, make_app
    except ModuleNotFoundError as error:
        raise ValueError(f"{error.name} is not installed: pip install 'trl-mle[openenv]'") from error

    try:
        family = socket.AF_INET6 if ":" in args.host else socket.AF_INET
        socket.create_server((args.host, args.port), family=family).close()
    except OSError as error:
        raise ValueError(f"cannot listen at {args.host}:{args.port}: {error.strerror}") from error
    loaded = [load_competition(name, args.data_dir, args.holdout) for name in args.competitions]
    with make_executor(args) as executor:
        for competition in loaded:
            executor.check(competition)
        reward = MLEReward(
            loaded,
            executor,
            AstInstrumenter(),
            show_progress=False,
            log_dir=args.output_dir,
        )
        app = make_app(reward, args.max_programs, args.max_sessions, os.environ.get(TOKEN) or None)
        console = Console(stderr=True)
        console.print(
            f"{executor.description}; {', '.join(args.competitions)} at ws://{args.host}:{args.port}", soft_wrap=True
        )
        uvicorn.run(app, host=args.host, port=args.port, ws_max_size=MAX_BYTES, log_level="warning")
