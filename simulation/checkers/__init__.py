"""Oracles: they keep what clients were told and say where the hall contradicts it.

None of them talks to anybody. Actors report to them what they tried and what they heard; a `Violation` is raised
where no correct hall could have behaved so.
"""

from __future__ import annotations

from simulation.checkers.violation import Violation

__all__ = ["Violation"]
