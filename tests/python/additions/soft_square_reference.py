    "soft_square": Row(
        weights=lambda scores, visible, _: over_sum(
            scores[:, 0] ** 2 / (1 + scores[:, 0] ** 2), scores[:, 0] ** 2 / (1 + scores[:, 0] ** 2), visible
        ),
        row_sum=None,
        steepness=lambda scores, visible: over_sum(
            2 * scores.abs() / (1 + scores**2) ** 2, scores**2 / (1 + scores**2), visible
        ),
    ),
