"""Settings: pools.toml as the scheduler takes it, who may ask for what, and where each value comes from."""

from pool_settings.problems import Problem as Problem
from pool_settings.problems import SettingsInvalid as SettingsInvalid
from pool_settings.reading import read_file as read_file
from pool_settings.reading import read_text as read_text
from pool_settings.settings import Settings as Settings
from pool_settings.sources import load as load
