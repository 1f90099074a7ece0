"""`trl-mle`: what is done outside of training."""

import argparse
import sys

from rich.console import Console
from rich.table import Table


def doctor(args: argparse.Namespace) -> int:
    """Tells how programs are isolated on this machine, by trying; exit code 1 if they cannot be."""
    from trl_mle.execution import LocalExecutor, SandboxError
    from trl_mle.execution.sandbox import REMEDY, TIERS

    table = Table("tier", "works", "why not", title="isolation of programs")
    works = []
    for tier in TIERS:
        try:
            with LocalExecutor(sandbox=tier) as executor:
                works.append(executor.description)
            table.add_row(tier, "yes", "")
        except SandboxError as error:
            table.add_row(tier, "no", error.reason)
    console = Console()
    console.print(table)
    if not works:
        console.print(f"Programs cannot be isolated on this machine. {REMEDY}", soft_wrap=True)
        return 1
    console.print(works[0], soft_wrap=True, highlight=False)
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(prog="trl-mle", description=__doc__.removeprefix("`trl-mle`: "))
    commands = parser.add_subparsers(required=True, metavar="command")
    command = commands.add_parser("doctor", help="how programs are isolated on this machine, and what is missing")
    command.set_defaults(run=doctor)
    args = parser.parse_args()
    sys.exit(args.run(args))


if __name__ == "__main__":
    main()
