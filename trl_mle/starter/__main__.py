"""`python -m trl_mle.starter --output_dir outputs/quickstart/starter --competitions digits`"""

from trl import TrlParser

from trl_mle.starter import StarterConfig, build_starter


if __name__ == "__main__":
    (config,) = TrlParser(StarterConfig).parse_args_and_config()  # type: ignore[arg-type]
    build_starter(config)
