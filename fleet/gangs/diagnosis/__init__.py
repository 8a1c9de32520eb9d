"""Why a gang waits and what would start it: pure arithmetic over the rooms of the nodes. No Django, no clock."""
