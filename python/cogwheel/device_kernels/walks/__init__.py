"""Mechanisms with a state (cogwheel/ops/recurrent): walks over tokens, S_t = A_t ∘ S_{t−1} + k_t v_tᵀ and their like. They have no row map."""
