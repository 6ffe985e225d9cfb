"""Orders to tell people something, and what is known of where messages stand."""
