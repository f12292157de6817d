"""How a gang's end becomes Airflow's: errors, and the policy that keeps Airflow from retrying them."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context, RetryDecision, RetryPolicy
from airflow.sdk.exceptions import AirflowException


class GangFailed(AirflowException):
    """The gang is over without a result; the message is the verdict's sentence and what to do."""


class GangInterrupted(GangFailed):
    """The gang rests with a checkpoint because somebody asked it to stop."""


class GangRetryPolicy(RetryPolicy):
    """Airflow's retries pay for lost Airflow processes only; a gang's verdict is final for its task.

    What a fault of the machines costs was already recovered inside the try, from the gang's own budgets.
    """

    def evaluate(
        self,
        exception: BaseException,
        try_number: int,  # noqa: ARG002 - the base class's signature
        max_tries: int,  # noqa: ARG002
        context: Context | None = None,  # noqa: ARG002
    ) -> RetryDecision:
        """FAIL for a verdict, Airflow's own rules for everything else."""
        if isinstance(exception, GangFailed):
            return RetryDecision.fail(reason=f"no Airflow retry can change a gang's verdict: {exception}")
        return RetryDecision.default()

    def serialize(self) -> dict[str, Any]:
        """Nothing but its name: it has no settings."""
        return {"__type": f"{type(self).__module__}.{type(self).__qualname__}"}
