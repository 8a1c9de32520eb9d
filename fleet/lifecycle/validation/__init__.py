"""What proves that a node works: suites of tests, how their logs are read, and what a value is measured against."""
