"""Record index and text index: where rows are, found without looking at all of them; no index ever changes an answer."""
