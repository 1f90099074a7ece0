"""`python -m trl_mle.starter --output_dir outputs/quickstart/starter --competitions digits`"""

import argparse
import sys
from pathlib import Path

from trl import TrlParser

from trl_mle.showing import never_fail_to_print
from trl_mle.starter.build import StarterConfig, build_starter


if __name__ == "__main__":
    never_fail_to_print()
    try:
        (config,) = TrlParser(StarterConfig, usage=argparse.SUPPRESS).parse_args_and_config()  # type: ignore[arg-type]
        Path(config.output_dir).mkdir(parents=True, exist_ok=True)  # fail before training, which takes minutes
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    try:
        build_starter(config)
    except KeyboardInterrupt:
        sys.exit(130)
