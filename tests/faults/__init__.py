"""A time loop in which anything can be made to happen, and what runs it in another process."""
