"""Pages. Reads through readmodels and selectors, writes through services; holds no rule of its own."""
