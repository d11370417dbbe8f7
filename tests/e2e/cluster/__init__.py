"""A one-node Kubernetes cluster from Go modules, for the e2e tests: `python -m cluster up`.

build    Go modules -> programs in the cache
needs    what this machine must have, as one clear line
images   pause, base and plugin, made on the spot
node     the namespaces that kubelet, containerd and all others live in
control  etcd, apiserver, controller manager, scheduler
gateway  the API server for Pods
worker   containerd and kubelet
cluster  up and down
"""
