"""Gangs: objects joined, members counted, reasons found."""
