"""Quality suites: what a partition must fulfil before a model may be trained on it."""

import os
import warnings

# Both before Great Expectations is imported: nothing is sent anywhere, and it tries pyspark, which isn't used here.
os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
