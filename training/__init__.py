"""Plain PyTorch under torchrun. Knows neither Airflow nor the scheduler."""
