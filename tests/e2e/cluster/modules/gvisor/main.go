// Command gvisor is gVisor's shim for containerd, where nobody may lower the OOM score of a process.
//
// gVisor's own gives up there, as root without CAP_SYS_RESOURCE is meant to have it: all else is as
// there, and comes from there.
package main

import (
	"context"
	"os"
	"os/exec"
	"syscall"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/shim"
	gvisor "gvisor.dev/gvisor/pkg/shim/v1"
	_ "gvisor.dev/gvisor/pkg/shim/v1/plugin"
)

type manager struct{ shim.Manager }

// Start a shim of its own for each container, which finds its socket as its first extra file.
func (manager) Start(
	ctx context.Context, id string, options shim.StartOpts,
) (params shim.BootstrapParams, err error) {
	namespace, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return params, err
	}
	address, err := shim.SocketAddress(ctx, options.Address, id, options.Debug)
	if err != nil {
		return params, err
	}
	socket, err := shim.NewSocket(address) // never closed, which would remove it
	if err != nil {
		return params, err
	}
	file, err := socket.File()
	if err != nil {
		return params, err
	}
	if err := os.WriteFile("address", []byte(address), 0o600); err != nil {
		return params, err
	}
	self, err := os.Executable()
	if err != nil {
		return params, err
	}
	command := exec.Command(self, "-namespace", namespace, "-address", options.Address, "-id", id)
	command.ExtraFiles = []*os.File{file}
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		return params, err
	}
	if err := shim.WritePidFile("shim.pid", command.Process.Pid); err != nil {
		return params, err
	}
	return shim.BootstrapParams{Version: 2, Address: address, Protocol: "ttrpc"}, nil
}

func main() {
	shim.Run(context.Background(), manager{gvisor.NewShimManager("io.containerd.runsc.v1")})
}
