# Airflow with this project's DAGs, operators and plugin: scheduler, DAG processor, API server, triggerer and task workers.
# No torch: nothing that Airflow runs imports it, and training happens where a gang is placed (trainer.Dockerfile).
# Spark is in: the preprocess task starts its job as a child process, and the validate task reads the Parquet it wrote.
# Build from the repository root: docker build -f docker/airflow.Dockerfile .
FROM python:3.11.14-slim-bookworm AS build
WORKDIR /build
COPY docker/airflow.lock ./
RUN python -m venv /opt/phalanx \
    && /opt/phalanx/bin/pip install --no-cache-dir --no-deps --requirement airflow.lock
COPY pyproject.toml README.md LICENSE ./
COPY data_pipelines ./data_pipelines
COPY operators ./operators
COPY training ./training
COPY plugins ./plugins
RUN /opt/phalanx/bin/pip install --no-cache-dir --no-deps .

FROM python:3.11.14-slim-bookworm
COPY --from=build /opt/phalanx /opt/phalanx
COPY plugins/phalanx_plugin.py plugins/.airflowignore /opt/airflow/plugins/
COPY dags /opt/airflow/dags
RUN useradd --uid 50000 --create-home airflow \
    && mkdir -p /var/lib/phalanx && chown airflow /var/lib/phalanx
ENV PATH=/opt/phalanx/bin:$PATH \
    AIRFLOW_HOME=/var/lib/phalanx/airflow \
    AIRFLOW__CORE__DAGS_FOLDER=/opt/airflow/dags \
    AIRFLOW__CORE__PLUGINS_FOLDER=/opt/airflow/plugins \
    AIRFLOW__CORE__LOAD_EXAMPLES=False \
    GX_ANALYTICS_ENABLED=false \
    PHALANX_HOME=/var/lib/phalanx
USER 50000
WORKDIR /var/lib/phalanx
ENTRYPOINT ["airflow"]
CMD ["version"]
