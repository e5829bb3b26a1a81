"""Studies: many algorithms on many problems, on disk, resumable to the same bits."""
