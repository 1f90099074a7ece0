"""`python -m trl_mle.starter --output_dir outputs/quickstart/starter --competitions digits`"""

import sys

from trl import TrlParser

from trl_mle.starter import StarterConfig, build_starter


if __name__ == "__main__":
    try:
        (config,) = TrlParser(StarterConfig).parse_args_and_config()  # type: ignore[arg-type]
    except ValueError as error:
        sys.exit(f"error: {error}")
    build_starter(config)
