"""The REST interface. Same services and selectors as the pages."""
