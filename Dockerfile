# A broker in a container: docs/containers.md describes its use.
ARG PYTHON_VERSION=3.13

# --- build stage
FROM python:${PYTHON_VERSION}-slim AS build
WORKDIR /source
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
RUN python -m venv /opt/pykbroker
COPY pyproject.toml README.md LICENSE ./
COPY protocol protocol
COPY storage storage
COPY pykbroker pykbroker
RUN /opt/pykbroker/bin/python -m pip install --compile .
RUN /opt/pykbroker/bin/python -m pip uninstall --yes pip

# --- run stage
FROM python:${PYTHON_VERSION}-slim
LABEL org.opencontainers.image.title="pykbroker" \
      org.opencontainers.image.description="A Kafka broker in Python" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN groupadd --gid 10001 pykbroker \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/pykbroker pykbroker \
 && install --directory --owner 10001 --group 10001 --mode 0750 /var/lib/pykbroker
COPY --from=build /opt/pykbroker /opt/pykbroker
ENV PATH="/opt/pykbroker/bin:${PATH}" PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /var/lib/pykbroker
VOLUME ["/var/lib/pykbroker"]
EXPOSE 9092 19092
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=5s --start-period=10s --retries=3 \
    CMD ["python", "-P", "-m", "pykbroker.cli.container", "health", "--timeout", "3"]
ENTRYPOINT ["python", "-P", "-m", "pykbroker.cli.container"]
