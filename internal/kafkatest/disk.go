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
