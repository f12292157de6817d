"""One thing that data must fulfil: an expectation of Great Expectations, with its limit and what to do in words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from great_expectations.expectations.expectation import Expectation


class About(StrEnum):
    """Which table is looked at: all rows together, or one row of figures per partition."""

    ROWS = "rows"
    DAYS = "days"


class Severity(StrEnum):
    """What a failure means; the values are Great Expectations' own."""

    STOP = "critical"
    WARN = "warning"


@dataclass(frozen=True)
class Check:
    """`limit` and `advice` are for people: the bound and where it is set; what to do when it is broken."""

    column: str
    about: About
    expectation: Expectation
    limit: str
    advice: str
    severity: Severity = Severity.STOP

    @property
    def name(self) -> str:
        return f"{self.column} {self.limit}"


@dataclass(frozen=True)
class Outcome:
    """What a check found. `examples` are offending values with the row or day they are from."""

    check: Check
    passed: bool
    observed: str
    examples: tuple[str, ...] = ()
    days: tuple[str, ...] = ()

    @property
    def stops(self) -> bool:
        return not self.passed and self.check.severity is Severity.STOP

    @property
    def sentence(self) -> str:
        """Column, observed, limit, what to do."""
        where = f" (for example {', '.join(self.examples[:3])})" if self.examples else ""
        return f"{self.check.column}: observed {self.observed}{where}; expected {self.check.limit}. {self.check.advice}"

    def as_json(self) -> dict[str, object]:
        return {
            "column": self.check.column,
            "expectation": self.check.expectation.expectation_type,
            "limit": self.check.limit,
            "observed": self.observed,
            "passed": self.passed,
            "severity": "stop" if self.check.severity is Severity.STOP else "warn",
            "examples": list(self.examples),
            "days": list(self.days),
            "advice": self.check.advice,
        }
