"""The admission cycle: who gets quota now."""
