"""Play a manager of MultiKueue and its worker clusters."""
