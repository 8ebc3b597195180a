"""Real Apache Hudi tables."""
