"""The program that measures speed on several devices measures what it says; speeds themselves are not tested."""

import pytest

from experiments.speed.devices import Devices, Row, devices, show

pytestmark = pytest.mark.slow  # programs that measure; nothing else depends on them


def test_every_number_of_devices_is_measured(capsys):
    # Two interpreters with their own devices, asked in turn; the first is what the others are compared with.
    options = Devices(algorithm="oful", dim=2, arms=3, rounds=50, seeds=32, repeats=3)
    rows = devices(options)
    assert [row.devices for row in rows] == [1, 2]
    assert rows[0].ratio == rows[0].low == rows[0].high == 1
    assert all(row.rate > 0 and row.low <= row.ratio <= row.high for row in rows)
    show(options, rows)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 4 and "32 seeds" in printed[0]


def test_what_is_printed(capsys):
    show(Devices(), [Row(1, 2e6, 1.0, 1.0, 1.0), Row(2, 3.5e6, 1.75, 1.5, 1.8)])
    assert "3.500    1.75   (1.50 to 1.80)" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [{"algorithm": "ucb"}, {"counts": ()}, {"counts": (1, 0)}])
def test_wrong_options_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        devices(Devices(**wrong))
