"""PostgreSQL and Airflow as one stack on one machine: brought up, watched, and taken down whole."""
