# A trainer: plain PyTorch under torchrun, following the training-process contract (docs/contracts.md). No Airflow.
# Build from the repository root: docker build -f docker/trainer.Dockerfile .
FROM python:3.11.14-slim-bookworm AS build
WORKDIR /build
COPY docker/trainer.lock ./
# Dependencies are followed here, unlike in the Airflow image: a torch built for CUDA brings libraries of its own, which
# the lock leaves to it so that the same lock serves machines without a GPU.
RUN python -m venv /opt/phalanx \
    && /opt/phalanx/bin/pip install --no-cache-dir --requirement trainer.lock
COPY pyproject.toml README.md LICENSE ./
COPY data_pipelines ./data_pipelines
COPY operators ./operators
COPY training ./training
COPY plugins ./plugins
RUN /opt/phalanx/bin/pip install --no-cache-dir --no-deps .

FROM python:3.11.14-slim-bookworm
COPY --from=build /opt/phalanx /opt/phalanx
RUN useradd --uid 50001 --create-home trainer \
    && mkdir -p /var/lib/phalanx && chown trainer /var/lib/phalanx
ENV PATH=/opt/phalanx/bin:$PATH \
    OMP_NUM_THREADS=1
USER 50001
WORKDIR /var/lib/phalanx
ENTRYPOINT ["torchrun"]
CMD ["--help"]
