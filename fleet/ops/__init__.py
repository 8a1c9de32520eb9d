"""Running Muster: supervisor, embedded servers, doctor, benchmarks and the commands people type."""
