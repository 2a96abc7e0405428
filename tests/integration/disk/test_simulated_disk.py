"""SimulatedDisk fulfils the contract of the Disk port."""

import pytest

from tests.integration.disk.disk_contract import DiskContract
from tidemill.simulation.machine.crash_fate import ALL_KEPT
from tidemill.simulation.machine.disk import SimulatedDisk


class TestSimulatedDisk(DiskContract):
    @pytest.fixture
    def disk(self) -> SimulatedDisk:
        return SimulatedDisk()

    @pytest.fixture
    def beside(self, disk: SimulatedDisk) -> SimulatedDisk:
        return disk.beside()


class TestSimulatedDiskWithoutCachedReads(TestSimulatedDisk):
    @pytest.fixture
    def disk(self) -> SimulatedDisk:
        disk = SimulatedDisk()
        disk.reads_cached = False
        return disk


class TestDiskAfterAPowerLoss(TestSimulatedDisk):
    @pytest.fixture
    def disk(self) -> SimulatedDisk:
        return SimulatedDisk().after_power_loss(ALL_KEPT)


class TestDiskAfterAKill(TestSimulatedDisk):
    @pytest.fixture
    def disk(self) -> SimulatedDisk:
        return SimulatedDisk().after_kill()
