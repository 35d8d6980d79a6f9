"""Stories in words: what `headway explain` prints of a history. Every figure in the words stands in the JSON."""
