"""The record that holds the C++ Inception network (tests/cpp/tasks/images/inception_network_test.cpp) is of this network."""

import json

import inception_reference
import pytest
import torch


@pytest.mark.slow
def test_features_are_the_recorded_ones():
    record, found = json.loads(inception_reference.RECORD.read_text()), inception_reference.features()
    assert record.keys() == found.keys()
    for name, kinds in found.items():
        for kind, features in kinds.items():
            torch.testing.assert_close(torch.tensor(record[name][kind]), torch.tensor(features), rtol=1e-6, atol=1e-6)


def test_border_free_mean_is_pytorchs_without_padding():
    x = torch.randn(2, 3, 5, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected = torch.nn.functional.avg_pool2d(x, 3, 1, 1, count_include_pad=False)
    torch.testing.assert_close(inception_reference.border_free_mean(x), expected)
