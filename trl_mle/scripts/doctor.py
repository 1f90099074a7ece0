"""`trl-mle doctor`: how this machine isolates programs, and what they can import."""

import argparse

from rich.table import Table

from trl_mle.competitions import load_competition
from trl_mle.execution import LocalExecutor, Outcome, SandboxError
from trl_mle.execution.sandbox import TIERS, CheckUnfinished
from trl_mle.execution.sandbox.interpreter import find_interpreter
from trl_mle.execution.sandbox.program_environment import IMPORTS
from trl_mle.showing import PlainConsole
from trl_mle.waits import waiting_for


def doctor(args: argparse.Namespace) -> int:
    """Checks each tier of the sandbox; exit code 1 if none works, 2 if this is unknown because a test did not end."""
    competition = load_competition("wine")
    table = Table("tier", "works", "how, or why not", title="program isolation")
    works, remedies, is_unknown = [], [], False
    find_interpreter(args.program_python)  # a wrong path says nothing about this machine
    for tier in TIERS:
        try:
            with LocalExecutor(sandbox=tier.name, python=args.program_python, packages=()) as executor:
                executor.check(competition)
                with waiting_for("a test program, which runs when a slot is free"):
                    [imported] = executor.run_many([(IMPORTS, competition)])
                if imported.outcome is not Outcome.OK:  # a moment ago it was
                    raise CheckUnfinished(f"a test program did not end: {imported.detail}")
                works.append(executor.description)
            table.add_row(tier.name, "yes", ", ".join(imported.stdout.splitlines()))
        except SandboxError as error:
            unfinished = isinstance(error, CheckUnfinished)
            is_unknown |= unfinished
            table.add_row(tier.name, "unknown" if unfinished else "no", error.reason)
            remedies.append(error.remedy)
    console = PlainConsole()
    console.print(table)
    if works:
        console.print(works[0])
        return 0
    remedy = "\n".join(dict.fromkeys(remedies))
    beginning = "It is not known whether a" if is_unknown else "No"
    console.print(f"{beginning} program can run in a sandbox on this machine. {remedy}", soft_wrap=True)
    return 2 if is_unknown else 1
