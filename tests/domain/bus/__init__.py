"""Messages: on a real Valkey, and when it goes away."""
