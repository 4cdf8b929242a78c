"""The five papers: protocol, constants and departures of each; the mathematics is elsewhere."""
