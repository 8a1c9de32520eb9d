"""How telemetry is read, before anything judges it."""
