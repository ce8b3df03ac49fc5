"""Where bytes live: the arena, and the tiers beyond it."""
