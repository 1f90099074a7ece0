"""Places milestone prints by following a program's data, without a language model."""

import secrets
from collections.abc import Sequence

from trl_mle.execution.program import InstrumentedProgram, ProgramError, parse_program
from trl_mle.instrumentation.insert import insert_prints
from trl_mle.instrumentation.steps.placing import find_steps
from trl_mle.instrumentation.verify import verify


class AstInstrumenter:
    r"""
    Instruments programs by rules: without a print wherever it is unclear that a milestone was reached.

    Example:

    ```python
    >>> program = AstInstrumenter().instrument("import pandas as pd\ntrain = pd.read_csv('input/train.csv')\n")
    >>> program.milestones
    ('imports', 'train_data')
    ```
    """

    def __init__(self) -> None:
        self._are_instrumented: list[bool] = []

    def instrument_many(self, sources: Sequence[str]) -> list[InstrumentedProgram]:
        """Places the prints of several programs."""
        programs = [self.instrument(source) for source in sources]
        self._are_instrumented += [bool(program.milestones) for program in programs]
        return programs

    def metrics(self) -> dict[str, float]:
        """Shares of the programs since the last call that were instrumented, and that could not be."""
        are_instrumented, self._are_instrumented = self._are_instrumented, []
        if not are_instrumented:
            return {}
        rate = sum(are_instrumented) / len(are_instrumented)
        return {"ast_rate": rate, "none_rate": 1 - rate}

    def instrument(self, source: str, nonce: str | None = None) -> InstrumentedProgram:
        """Places the prints, with a random nonce; none if it does not compile or they cannot be trusted."""
        nonce = nonce or secrets.token_hex(8)
        try:
            program = insert_prints(source, find_steps(parse_program(source)), nonce)
            verify(program.original, program.source, nonce)
        except ProgramError:
            return InstrumentedProgram(source=source, original=source, milestones=(), nonce=nonce)
        return program
