#!/bin/sh
# What kind finds as docker in without_docker.py. It starts nothing: the node is that of these tests, and
# of what kind has executed there it runs containerd's own commands. What it was not asked when this was
# written is an error.
#
# E2E_STATE: a folder; E2E_NODE: a process in the node; E2E_ADMIN, E2E_SERVER, E2E_VERSION: of Kubernetes.
set -eu
name=$E2E_STATE/name

case "$*" in
    -v) echo "Docker version 28.0.0, build e2e" ;;
    "info "*) echo '{"CgroupVersion": "2", "MemoryLimit": true, "PidsLimit": true, "CPUShares": true}' ;;
    "ps "*"{{.Names}}") [ ! -e "$name" ] || cat "$name" ;;
    "ps "*) [ ! -e "$name" ] || sed 's/-control-plane$//' "$name" ;;
    "inspect --type=image "* | "network ls "*) echo "it is there" ;;
    "run --name "*) echo "$3" >"$name" ;;
    "logs "*) echo "Reached target Multi-User System." ;;
    "inspect "*io.x-k8s.kind.role*) echo control-plane ;;
    "inspect "*IPAddress*) echo 192.0.2.1, ;;
    "inspect "*/ports/6443/tcp*) echo "$E2E_SERVER" ;;
    "rm -f -v "*) rm "$name" ;;
    "exec --privileged "*)
        shift 2
        [ "$1" != -i ] || shift
        shift
        case "$*" in
            "ctr "* | "containerd "*) exec nsenter --target "$E2E_NODE" --mount --pid -- "$@" ;;
            "cat /etc/kubernetes/admin.conf") cat "$E2E_ADMIN" ;;
            "cat /kind/version") echo "v$E2E_VERSION.0" ;;
            "cat /kind/manifests/"*) ;;
            "cat /etc/containerd/config.toml") echo "version = 2" ;; # as in kind's images
            "cp /dev/stdin "*) cat >"$E2E_STATE/${3##*/}" ;;
            "kubectl "*" get nodes "*) echo "'True'" ;;
            "kubectl "*"-f -") cat >/dev/null ;;
            "kubectl "* | "kubeadm "* | "mkdir "* | "bash "*) ;;
            *) echo "docker.sh: in the node: $*" >&2 && exit 1 ;;
        esac
        ;;
    *) echo "docker.sh: $*" >&2 && exit 1 ;;
esac
