"""What late, batched and corrupted rewards cost."""
