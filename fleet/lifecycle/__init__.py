"""What we do: the machine, playbooks, steps and the engine that advances one step per message."""
