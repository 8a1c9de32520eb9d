"""Thin Celery tasks: each calls one service and holds no logic."""

from tasks.celery import app

__all__ = ["app"]
