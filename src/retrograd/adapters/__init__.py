"""One adapter a framework; each is the only place that imports it."""
