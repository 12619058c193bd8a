//go:build unix

package kafkatest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/lca-stream/lca-stream/internal/testtools"
)

// classArchive is a file with the classes of a version of Kafka as a JVM needs them (class data sharing, JEP 350). A node
// that starts with it takes half the CPU time to start. It is made once for each JVM, by a node that is stopped in order.
func classArchive(t testing.TB, k Kind) string {
	t.Helper()
	home := testtools.CacheDir(t, "kafka", string(k), "classes")
	defer testtools.Lock(t, home)()
	program, err := filepath.EvalSymlinks(java(t))
	if err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	built, err := os.Stat(program)
	if err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	path := filepath.Join(home, fmt.Sprintf("%x.jsa", built.ModTime().UnixNano()))
	if _, err := os.Stat(path); err == nil {
		return path
	}
	part := path + ".part"
	b := StartWith(t, k, Setup{classes: part})
	b.CreateTopic(t, "classes", 1, nil)
	b.Stop()
	if err := os.Rename(part, path); err != nil {
		t.Fatalf("kafkatest: %s made no archive of the classes of %s: %v", program, k, err)
	}
	return path
}
