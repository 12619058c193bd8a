package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// What stays says all of it at its start, and so does doctor. Here each ends then, because there is no topic to read.
func TestRisksAreSaidAtTheStart(t *testing.T) {
	t.Parallel()
	b := kafkatest.Start(t, kafkatest.Embedded)
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"run", "learn", "transform", "replay", "doctor"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			p, stdout, stderr := inTest()
			execute(t.Context(), p, []string{command, "--set", "kafka.brokers=" + b.Addrs()[0], "--set", "http.listen=", "-c", os.DevNull,
				"--set", "source.registry.url=http://127.0.0.1:1", "--set", "source.registry.username=u", "--set", "source.registry.password_file=" + password})
			for _, says := range []string{"source.registry.url without TLS", "every user of this machine can read or write"} {
				if said := stdout.String() + stderr.String(); !strings.Contains(said, says) {
					t.Errorf("does not say %q:\n%s", says, said)
				}
			}
		})
	}
}
