"""What GPUs that are held for nothing add up to: GPU-hours, and money where a price is set.

Decides that time counts up to now while an observer watches, and no further than its last word. Refuses a price of its
own: without `MUSTER_GPU_HOUR_PRICE` no money is told.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import DurationField, ExpressionWrapper, F, FloatField, Value
from django.db.models.functions import Coalesce, Extract, Greatest, Least
from django.utils.translation import ngettext

HOUR = 3600.0


def idle_seconds(now: datetime) -> ExpressionWrapper:
    """GPU-seconds that a gang's row stands for at `now`."""
    until = Least(Value(now), F("cluster__observer_until"))
    since = ExpressionWrapper(until - Coalesce(F("counted_at"), Value(now)), output_field=DurationField())
    more = Extract(Greatest(since, Value(timedelta(0)), output_field=DurationField()), "epoch")
    return ExpressionWrapper(F("idle_seconds") + F("gpus_held_idle") * more, output_field=FloatField())


def gpu_hours(seconds: float) -> str:
    """`87 GPU-hours`; one decimal below ten."""
    hours = seconds / HOUR
    number = f"{hours:.1f}".removesuffix(".0") if hours < 9.95 else f"{hours:,.0f}"
    return ngettext("%(n)s GPU-hour", "%(n)s GPU-hours", 1 if number == "1" else 2) % {"n": number}


def money(seconds: float) -> str:
    """`312 USD`, or "" where no price is set."""
    if not settings.GPU_HOUR_PRICE:
        return ""
    amount = seconds / HOUR * settings.GPU_HOUR_PRICE
    return f"{amount:,.2f} {settings.CURRENCY}" if amount < 100 else f"{amount:,.0f} {settings.CURRENCY}"


def cost(seconds: float) -> str:
    """Both, as far as they are known."""
    return ", ".join(part for part in (gpu_hours(seconds), money(seconds)) if part)
