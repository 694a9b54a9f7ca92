"""Bytes and requests that exports at a URL took."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

__all__ = ["Meter", "Traffic", "traffic"]


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of bodies that were received, and requests that were sent, redirects and retries included."""

    bytes: int = 0
    requests: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.bytes + other.bytes, self.requests + other.requests)

    def __sub__(self, other: Traffic) -> Traffic:
        return Traffic(self.bytes - other.bytes, self.requests - other.requests)


@dataclass(slots=True)
class Meter:
    """Count of what threads receive."""

    _bytes: int = 0
    _requests: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, *, bytes_: int = 0, requests: int = 0) -> None:
        """Count bytes or requests."""
        with self._lock:
            self._bytes += bytes_
            self._requests += requests

    @property
    def traffic(self) -> Traffic:
        """What was counted so far."""
        return Traffic(self._bytes, self._requests)


METER = Meter()
"""The count of this process."""


def traffic() -> Traffic:
    """Bytes and requests of this process so far."""
    return METER.traffic
