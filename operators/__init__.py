"""Airflow operators of Phalanx; they know Airflow and the gang controller, never torch or a Spark session."""
