"""The policy in the tables: versions, approval of what loosens, and what holds afterwards."""
