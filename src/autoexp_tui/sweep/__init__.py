"""The sweep: its schema, expansion, filters, expressions and families. Pure."""
