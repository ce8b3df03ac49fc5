"""A directory that survives the process: what is durable in it is there after ``kill -9``."""

from __future__ import annotations

from retrograd.durable.journal import Journal

__all__ = ["Journal"]
