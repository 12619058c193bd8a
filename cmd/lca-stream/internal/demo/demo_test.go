package demo

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/demo/toy"
)

// The demo runs with configs/demo.yaml, except for the addresses.
func TestDemoConfigIsTheExample(t *testing.T) {
	want, err := config.Load(config.Input{File: filepath.Join("..", "..", "..", "..", "configs", "demo.yaml"), Getenv: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := toy.Open("five", 1)
	if err != nil {
		t.Fatal(err)
	}
	got := demoConfig(demoFlags{http: want.HTTP.Listen, data: "five"}, stream, want.Kafka.Brokers[0])
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configs/demo.yaml is not what the demo runs with (-file +demo):\n%s", diff)
	}
}
