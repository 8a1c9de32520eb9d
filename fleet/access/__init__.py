"""Users, roles x scopes, tokens. Denies by default: a view without a declared permission is a 403."""
