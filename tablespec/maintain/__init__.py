"""Looking after tables: compacting, clustering, vacuuming, restoring."""
