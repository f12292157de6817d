"""What Phalanx shows in Airflow's UI beside Airflow's own pages."""
