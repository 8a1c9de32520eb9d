"""What people must fix: tickets with their evidence. Never touches a node: closing one only asks the engine."""
