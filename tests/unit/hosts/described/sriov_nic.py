"""A ConnectX-5 with 16 virtual functions: 12 with the kernel's driver, 4 for virtual machines."""

from tests.unit.hosts.expected import Case, Expected, Given

COUNT, KERNEL = 16, 12
# Those of the first port begin behind the second physical function: 81:00.2 to 81:02.1.
VFS = [f"81:{(2 + n) // 8:02x}.{(2 + n) % 8}" for n in range(COUNT)]

_VF = """
    {address} 15b3:1018 020000 {driver} sub=15b3:0091 physfn=81:00.0"""
_RDMA = """
      infiniband/mlx5_{n}
      uverbs{n} ibdev=mlx5_{n}
      net/ens1f0v{v}"""

TEXT = """
node0 0-15
node1 16-31
iommu identity
pci0000:80 numa=1
  80:02.0 8086:6f04 060400 pcieport
    81:00.0 15b3:1017 020000 mlx5_core sub=15b3:0091 sriov=64
      infiniband/mlx5_0
      uverbs0 ibdev=mlx5_0
      net/ens1f0np0
    81:00.1 15b3:1017 020000 mlx5_core sub=15b3:0091 sriov=64
      infiniband/mlx5_1
      uverbs1 ibdev=mlx5_1
      net/ens1f1np1
""" + "".join(
    _VF.format(address=vf, driver="mlx5_core") + _RDMA.format(n=n + 2, v=n)
    if n < KERNEL
    else _VF.format(address=vf, driver="vfio-pci")
    for n, vf in enumerate(VFS)
)


def _function(number: int, nodes: tuple[Given, ...]) -> Expected:
    kernel = number < KERNEL
    return Expected(
        {"address": f"0000:{VFS[number]}"},
        nodes,
        numa=(1,),
        attributes={
            "vendor": "15b3",
            "device": "1018",
            "driver": "mlx5_core" if kernel else "vfio-pci",
            "physical_function": "0000:81:00.0",
            "pcie_root": "pci0000:80",
            "numa": "1",
        },
    )


def _verbs(number: int) -> Given:
    node = f"/dev/infiniband/uverbs{number + 2}"
    return Given((f"/dev/infiniband/by-path/pci-0000:{VFS[number]}", node), node)


def _vfio(number: int) -> Expected:
    # The root port is group 0, the physical functions 1 and 2.
    group, cdev = 3 + number, number - KERNEL
    nodes = (
        Given(f"/dev/vfio/{group}"),
        Given("/dev/vfio/vfio"),
        Given(f"/dev/vfio/devices/vfio{cdev}"),
        Given("/dev/iommu"),
    )
    function = _function(number, nodes)
    more = {"iommu_group": str(group), "addresses": f"0000:{VFS[number]}"}
    return Expected(
        {"iommu_group": str(group)}, nodes, numa=(1,), attributes={**function.attributes, **more}
    )


RDMA = """
  - name: example.com/rdma
    devices:
      - pci: {vendor: "15b3", device: "1018", driver: mlx5_core}
        nodes: [{subsystem: infiniband_verbs}]
"""

CASES = (
    Case(
        "the functions that the kernel drives, with their verbs",
        RDMA,
        {"rdma": tuple(_function(n, (_verbs(n),)) for n in range(KERNEL))},
    ),
    Case(
        "the functions for virtual machines",
        """
  - name: example.com/vf
    devices: [{vfio: {vendor: "15b3", device: "1018"}}]
""",
        {"vf": tuple(map(_vfio, range(KERNEL, COUNT)))},
    ),
    Case(
        "by address, and of one physical function",
        """
  - name: example.com/first
    devices:
      - pci: {address: "0000:81:00.*"}
        nodes: [{subsystem: infiniband_verbs}]
        where: [{key: physical_function, operator: In, values: ["0000:81:00.0"]}]
""",
        {"first": tuple(_function(n, (_verbs(n),)) for n in range(6))},
    ),
    Case(
        "the physical functions themselves",
        """
  - name: example.com/port
    devices:
      - pci: {vendor: "15b3"}
        nodes: [{subsystem: infiniband_verbs}]
        where: [{key: physical_function, operator: DoesNotExist}]
""",
        {
            "port": tuple(
                Expected(
                    {"address": f"0000:81:00.{n}"},
                    (
                        Given(
                            (
                                f"/dev/infiniband/by-path/pci-0000:81:00.{n}",
                                f"/dev/infiniband/uverbs{n}",
                            ),
                            f"/dev/infiniband/uverbs{n}",
                        ),
                    ),
                    numa=(1,),
                    attributes={"device": "1017"},
                    absent=("physical_function",),
                )
                for n in range(2)
            )
        },
    ),
)
