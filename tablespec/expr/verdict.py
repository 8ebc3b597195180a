"""What can be said about a predicate over many rows without looking at each.

The possible outcomes of a predicate over a set of rows are a subset of {true, false, null}. `Outcomes` holds one mask
for each, over any number of row sets at once; a mask says for which row sets that outcome is possible.
"""

from __future__ import annotations

import enum
from typing import Generic, Protocol, Self, TypeVar

import attrs


class Verdict(enum.Enum):
    """Whether a slice has rows that match: none, all, or nobody knows without reading."""

    NEVER = "never"
    ALWAYS = "always"
    MAYBE = "maybe"


class Mask(Protocol):
    """A truth value for each row set."""

    def __and__(self, other: Self, /) -> Self: ...
    def __or__(self, other: Self, /) -> Self: ...


M = TypeVar("M", bound=Mask)


@attrs.frozen
class Outcomes(Generic[M]):
    """For which row sets a predicate may be true, false or null for some row."""

    true: M
    false: M
    null: M

    def negated(self) -> Outcomes[M]:
        """The outcomes of NOT."""
        return Outcomes(self.false, self.true, self.null)

    def both(self, other: Outcomes[M]) -> Outcomes[M]:
        """The outcomes of AND, taking the two sides as independent."""
        false = self.false | other.false
        null = (self.null & (other.null | other.true)) | (self.true & other.null)
        return Outcomes(self.true & other.true, false, null)

    def either(self, other: Outcomes[M]) -> Outcomes[M]:
        """The outcomes of OR, taking the two sides as independent."""
        return self.negated().both(other.negated()).negated()
