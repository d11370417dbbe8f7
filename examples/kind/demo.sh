#!/bin/sh
# `make kind-demo`: devices by number and by claim, on a kind cluster that is made for it and gone
# afterwards. Each command is printed as it runs, and docs/kind.md shows them all.
#
# KIND and KUBECTL name other programs; with KEEP=1 all is left as it is before the clean-up.
set -eu
cd "$(dirname "$0")/../.."
KIND=${KIND:-kind} KUBECTL=${KUBECTL:-kubectl}
NAME=device-plugin
unset IMAGE  # `make image` would write elsewhere

stop() {
    echo "kind-demo: $1; without Docker, as root: make kind-demo ON=e2e" >&2
    exit 1
}

run() {
    printf '\n$ %s\n' "$1"
    eval "$1"
}

clean_up() {
    code=$?
    trap - EXIT
    if [ -n "${KEEP:-}" ]; then
        printf '\nThe cluster is yours: %s delete cluster --name %s\n' "$KIND" "$NAME"
        exit "$code"
    fi
    [ "$code" = 0 ] || echo "kind-demo: it ended early; KEEP=1 leaves the cluster to look at" >&2
    run "$KIND delete cluster --name $NAME"
    exit "$code"
}

command -v "$KIND" >/dev/null || stop "$KIND is missing, see https://kind.sigs.k8s.io"
command -v "$KUBECTL" >/dev/null || stop "$KUBECTL is missing, see https://kubernetes.io/docs/tasks/tools"
clusters=$("$KIND" get clusters 2>&1) || stop "$KIND finds no Docker engine that runs: $clusters"
case " $(echo $clusters) " in
*" $NAME "*) echo "kind-demo: there is such a cluster already: $KIND delete cluster --name $NAME" >&2; exit 1 ;;
esac

run "make image"
run "export KUBECONFIG=build/kind.kubeconfig"
# From before it is made: what an interrupt leaves of it goes as well.
trap clean_up EXIT
trap 'exit 130' INT TERM HUP
run "$KIND create cluster --name $NAME --config examples/kind/cluster.yaml --wait 3m"
run "$KIND load image-archive build/device-plugin-image.tar --name $NAME"

run "$KUBECTL apply -k examples/kind"
run "$KUBECTL --namespace device-plugin rollout status daemonset/device-plugin --timeout 2m"
run "$KUBECTL wait nodes --all --timeout 1m --for 'jsonpath={.status.allocatable.example\.com/licence}=3'"
run "$KUBECTL get resourceslices"

run "$KUBECTL apply -f examples/kind/pod.yaml"
run "$KUBECTL wait pod/both --for condition=Ready --timeout 2m"
run "$KUBECTL exec both -- python3 -c 'import os; print(*(os.environ[n] for n in (\"LICENCE\", \"GPU_ID\", \"GPU_MEMORY\")))'"
run "$KUBECTL get resourceclaims"
run "$KUBECTL --namespace device-plugin exec daemonset/device-plugin -- device-plugin status"

[ -z "${KEEP:-}" ] || exit 0
run "$KUBECTL delete -f examples/kind/pod.yaml"
run "$KUBECTL delete -k examples/kind"
