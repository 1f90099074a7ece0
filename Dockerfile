# trl-mle serve in a container; see docs/environments.md. Not built in CI, which has no Docker.
#
#   docker build -t trl-mle .
#   docker run -p 8000:8000 -e TRL_MLE_TOKEN=… trl-mle --competitions digits
#
# Without user namespaces, Landlock isolates the programs (Linux 6.12); `docker run --entrypoint trl-mle trl-mle doctor` shows what works.
FROM python:3.12-slim

RUN apt-get update && apt-get install --yes --no-install-recommends bubblewrap libseccomp2 && rm -rf /var/lib/apt/lists/*
# For example, an index with CPU builds of torch, which are a tenth of the size
ARG PIP_ARGS=""
COPY pyproject.toml constraints.txt README.md LICENSE /src/
COPY trl_mle /src/trl_mle
COPY recipes /src/recipes
COPY accelerate_configs /src/accelerate_configs
RUN pip install --no-cache-dir $PIP_ARGS -c /src/constraints.txt torch==2.13.0 \
    && pip install --no-cache-dir $PIP_ARGS -c /src/constraints.txt "/src[openenv]"
# Not root: running programs needs no privileges
RUN useradd --create-home trl_mle
USER trl_mle
WORKDIR /home/trl_mle
EXPOSE 8000
ENTRYPOINT ["trl-mle", "serve", "--host", "0.0.0.0"]
