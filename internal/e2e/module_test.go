package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// A program of another module reads, whitens and writes with our packages alone. It is built with what this module
// has fetched already, and runs against a broker.
func TestAnotherModule(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	own, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	// The versions are ours, as `go mod tidy` would choose them with a network.
	module := strings.Replace(string(own), "module github.com/lca-stream/lca-stream", "module example.com/another", 1) + fmt.Sprintf(`
require github.com/lca-stream/lca-stream v0.0.0
replace github.com/lca-stream/lca-stream => %s
`, root)
	copyFile(t, filepath.Join(dir, "go.sum"), filepath.Join(root, "go.sum"))
	copyFile(t, filepath.Join(dir, "main.go"), "testdata/module/main.go")
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(module), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "another")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=mod", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}

	b := kafkatest.Start(t, kafkatest.Embedded)
	b.CreateTopic(t, "rows", 2, nil)
	b.CreateTopic(t, "whitened", 2, nil)
	p, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for i := range 200 {
		value := fmt.Sprintf(`{"a": %d, "b": %d, "c": %d}`, i*i%17, 10*i+i*i%11, i%7)
		if err := p.ProduceSync(t.Context(), &kgo.Record{Topic: "rows", Partition: int32(i % 2), Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), program, strings.Join(b.Addrs(), ","), "rows", "whitened").CombinedOutput()
	if want := "y[0]: mean square 1.00\ny[1]: mean square 1.00\ny[2]: mean square 1.00\n"; err != nil || string(out) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, out, want)
	}
}

func copyFile(t *testing.T, to, from string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
