"""The least that a device plugin on grpcio can be: what ours is measured against.

Usage: bare.py FOLDER RESOURCES DEVICES. Fixed lists, no health, no healing, no logs.
"""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc

from device_plugin._api.deviceplugin.v1beta1 import deviceplugin_pb2 as pb
from device_plugin._api.deviceplugin.v1beta1 import deviceplugin_pb2_grpc as pb_grpc


class Bare(pb_grpc.DevicePluginServicer):
    def __init__(self, resource: str, devices: int) -> None:
        self._list = pb.ListAndWatchResponse(
            devices=[pb.Device(ID=f"{resource}-{i}", health="Healthy") for i in range(devices)]
        )

    def GetDevicePluginOptions(self, request, context):
        return pb.DevicePluginOptions()

    def GetPreferredAllocation(self, request, context):
        return pb.PreferredAllocationResponse()

    def PreStartContainer(self, request, context):
        return pb.PreStartContainerResponse()

    def ListAndWatch(self, request, context):
        yield self._list
        ended = threading.Event()
        context.add_callback(ended.set)
        ended.wait()

    def Allocate(self, request, context):
        return pb.AllocateResponse(
            container_responses=[
                pb.ContainerAllocateResponse(
                    devices=[
                        pb.DeviceSpec(
                            host_path=f"/dev/{id_}", container_path=f"/dev/{id_}", permissions="rw"
                        )
                        for id_ in container.devices_ids
                    ]
                )
                for container in request.container_requests
            ]
        )


def main() -> None:
    folder, resources, devices = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    servers: list[grpc.Server] = []
    with grpc.insecure_channel(f"unix:{folder}/kubelet.sock") as channel:
        kubelet = pb_grpc.RegistrationStub(channel)
        for i in range(resources):
            server = grpc.server(ThreadPoolExecutor(8))
            pb_grpc.add_DevicePluginServicer_to_server(Bare(f"r{i}", devices), server)
            server.add_insecure_port(f"unix:{folder}/bare-{i}.sock")
            server.start()
            servers.append(server)
            request = pb.RegisterRequest(
                version="v1beta1", endpoint=f"bare-{i}.sock", resource_name=f"example.com/r{i}"
            )
            kubelet.Register(request, timeout=15)
    threading.Event().wait()


main()
