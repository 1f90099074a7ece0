"""Other frameworks on one server: verifiers' bundled OpenEnv task set and an Inspect task, at the same time."""

import pytest


pytest.importorskip("openenv", reason="make test-openenv installs it")
pytest.importorskip("verifiers", reason="make test-openenv installs it")
pytest.importorskip("inspect_ai", reason="make test-openenv installs it")
