"""What one screen shows beyond the status: pure functions of (fold, now), some with a bounded look at the journals."""
