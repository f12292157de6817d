"""Spark jobs, partition manifests and the quality gate; knows nothing of Airflow, the scheduler or training."""
