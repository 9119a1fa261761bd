"""Controllers that count usage against a limit: of ResourceQuotas, and of PodDisruptionBudgets."""
