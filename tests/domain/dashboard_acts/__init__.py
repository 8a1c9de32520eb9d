"""What people ask for, agree to and plan, by pages and API."""
