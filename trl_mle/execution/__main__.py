"""`python -m trl_mle.execution` tells in one line how programs are isolated on this machine; exit code 1 if they are not."""

import sys

from trl_mle.execution import LocalExecutor, SandboxError


if __name__ == "__main__":
    try:
        with LocalExecutor(max_parallel=1) as executor:
            print(f"programs are isolated by {executor.tier}")
    except SandboxError as error:
        sys.exit(str(error))
