"""Addresses of the API and of the probes."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
