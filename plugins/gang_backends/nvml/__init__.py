"""This host's GPUs, as NVIDIA's management library (NVML) tells of them."""

from gang_backends.nvml.gpus import Gpu as Gpu
from gang_backends.nvml.gpus import find_gpus as find_gpus
