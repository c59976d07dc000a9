"""Oracles: each records what clients were told, and raises a `Violation` where the hall contradicts it.

Oracles make no requests. Actors report what they tried and what was answered; a `Violation` means that no correct hall
could have behaved so.
"""

from __future__ import annotations

from simulation.checkers.violation import Violation

__all__ = ["Violation"]
