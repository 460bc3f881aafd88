"""Every workaround for xDSL, each with its reason beside it."""
