"""A PC with a TPM 2.0: the plain device, which is for one, and the one that the kernel shares."""

from tests.unit.hosts.expected import Case, Expected, Given

TEXT = """
platform
  MSFT0101:00 tpm_crb
    tpm0 tpm_version_major=2
    tpmrm0
pci0000:00
  00:02.0 8086:9bc5 030000 i915
    drm/card0
    renderD128
"""

CASES = (
    Case(
        "shared by the kernel's resource manager",
        """
  - name: example.com/tpm
    devices: [{path: /dev/tpmrm0, replicas: 16}]
""",
        {"tpm": (Expected({"path": "/dev/tpmrm0"}, (Given("/dev/tpmrm0"),)),)},
    ),
    Case(
        "any number of plain ones, and none that are not there",
        """
  - name: example.com/plain
    devices: [{path: "/dev/tpm[0-9]", to: /dev/tpm0}]
    per_container: {max: 1}
  - name: example.com/more
    devices: [{path: "/dev/tpm[1-9]"}]
""",
        {"plain": (Expected({"path": "/dev/tpm0"}, (Given("/dev/tpm0"),)),), "more": ()},
    ),
)
