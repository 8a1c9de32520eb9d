"""What is allowed: modes and caps. Every answer is allowed, or blocked with a reason code, a sentence and a time."""
