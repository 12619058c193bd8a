//go:build unix

package kafkatest

import (
	"os"
	"path/filepath"
	"testing"
)

// LoseLogs deletes what nodes (by index; none means all) that are down have on disk of a topic: a disk
// that was lost and replaced, while the cluster still believes that they have it.
func (b *Broker) LoseLogs(t testing.TB, topic string, nodes ...int) {
	t.Helper()
	lost := 0
	for _, n := range b.pick(nodes) {
		j, ok := n.(*javaNode)
		if !ok || j.proc != nil {
			t.Fatal("kafkatest: only a node of Apache Kafka that is down can lose its logs")
		}
		dirs, err := filepath.Glob(filepath.Join(j.dir, "data", topic+"-[0-9]*"))
		for _, dir := range dirs {
			if err == nil {
				err = os.RemoveAll(dir)
			}
			lost++
		}
		if err != nil {
			t.Fatalf("kafkatest: lose %s: %v", topic, err)
		}
	}
	if lost == 0 {
		t.Fatalf("kafkatest: nothing of %s is there to be lost", topic)
	}
}

// LogBytes returns how many bytes the records of a topic take on the disks of all nodes of Apache Kafka.
func (b *Broker) LogBytes(t testing.TB, topic string) (size int64) {
	t.Helper()
	for _, n := range b.nodes {
		logs, err := filepath.Glob(filepath.Join(n.(*javaNode).dir, "data", topic+"-[0-9]*", "*.log"))
		for _, path := range logs {
			info, statErr := os.Stat(path)
			if statErr != nil {
				t.Fatalf("kafkatest: the size of %s: %v", topic, statErr)
			}
			size += info.Size()
		}
		if err != nil || len(logs) == 0 {
			t.Fatalf("kafkatest: nothing of %s is on disk: %v", topic, err)
		}
	}
	return size
}
