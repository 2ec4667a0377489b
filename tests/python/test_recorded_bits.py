"""Training, resuming and comparing give the bits that they gave when they were recorded (recorded_bits.py)."""

import json

import pytest
import recorded_bits


def test_training_gives_the_recorded_bits(cogwheel_executable, tmp_path):
    name = recorded_bits.machine(cogwheel_executable)
    record = json.loads(recorded_bits.RECORD.read_text())
    if name not in record:
        pytest.skip(f"no bits were recorded on this machine: {name}")
    assert recorded_bits.measure(cogwheel_executable, tmp_path) == record[name]
