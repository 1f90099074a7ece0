"""Settings of all small training runs of the tests."""

ON_CPU = {
    "use_cpu": True,
    "bf16": False,
    "report_to": "none",
    "disable_tqdm": True,
    "gradient_checkpointing": False,
    "save_strategy": "no",
    "logging_steps": 1,
}
