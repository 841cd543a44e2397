# strands-cli in a container. Untested: there was no Docker where it was written.
#
#   docker build -t strands-cli .
#   docker run --rm -it -v "$PWD:/work" strands-cli list-tools
#
# With Docker's own restrictions the sandbox lacks namespaces. For its full level, give the container:
#
#   --security-opt seccomp=unconfined        user namespaces, which Docker's system call filter refuses
#   --security-opt apparmor=unconfined       mounts inside them, which its AppArmor profile refuses
#   --security-opt systempaths=unconfined    a fresh /proc inside them
#
# 'docker run … strands-cli doctor' shows the level. docs/guides/packaging.md says what each flag costs.

FROM python:3.12-slim AS build
ARG EXTRAS=all
WORKDIR /source
COPY . .
# The versions of the lock file, so that two builds install the same packages.
RUN pip install --no-cache-dir --require-hashes -r requirements-uv.lock \
    && uv venv /opt/strands \
    && uv pip install --no-cache --compile-bytecode --python /opt/strands/bin/python \
        --constraint requirements.lock ".[${EXTRAS}]"

FROM python:3.12-slim
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libseccomp2 git \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 strands
COPY --from=build /opt/strands /opt/strands
ENV PATH=/opt/strands/bin:$PATH
USER 1000
WORKDIR /work
ENTRYPOINT ["strands"]
CMD ["--help"]
