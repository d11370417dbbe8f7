// Reads objects of the Prometheus operator, one YAML document on stdin, as strictly as it can be done
// without a cluster: by the operator's own types, every key known and every value of its type.
package main

import (
	"fmt"
	"io"
	"os"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := check(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func check() error {
	given, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	var kind meta.TypeMeta
	if err := yaml.Unmarshal(given, &kind); err != nil {
		return err
	}
	switch kind.GroupVersionKind().String() {
	case "monitoring.coreos.com/v1, Kind=PodMonitor":
		return yaml.UnmarshalStrict(given, &monitoring.PodMonitor{})
	case "monitoring.coreos.com/v1, Kind=PrometheusRule":
		return yaml.UnmarshalStrict(given, &monitoring.PrometheusRule{})
	}
	return fmt.Errorf("%s is neither a PodMonitor nor a PrometheusRule", kind.GroupVersionKind())
}
