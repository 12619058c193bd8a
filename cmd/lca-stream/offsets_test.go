package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// A transaction that a process has left open as it was killed may take a minute to end: who only looks does not wait for it.
func TestOffsetsShowWaitsForNoTransaction(t *testing.T) {
	t.Parallel()
	b := kafkatest.Start(t, kafkatest.Embedded)
	b.CreateTopic(t, "events", 1, nil)
	file := filepath.Join(t.TempDir(), "stream.yaml")
	if err := os.WriteFile(file, []byte("kafka: {brokers: ["+strings.Join(b.Addrs(), ", ")+"]}\nsource: {topic: events}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	p, stdout, stderr := inTest()
	if code := execute(ctx, p, []string{"offsets", "show", "-c", file}); code != app.ExitFailed || !strings.Contains(stderr.String(), "lca-checkpoints (checkpoint.topic): the topic or partition does not exist: create it with `lca-stream topics init`") {
		t.Errorf("without our topics: exit code %d:\n%s%s", code, stdout, stderr)
	}
	if code := execute(ctx, p, []string{"topics", "init", "-c", file}); code != app.ExitDone {
		t.Fatalf("exit code %d:\n%s%s", code, stdout, stderr)
	}
	for _, topic := range []string{"lca-checkpoints", "whitened"} {
		c, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.TransactionalID(topic), kgo.TransactionTimeout(10*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err = c.BeginTransaction(); err == nil {
			err = c.ProduceSync(ctx, &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte("v")}).FirstErr()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range []string{"offsets show", "doctor"} {
		p, stdout, stderr := inTest()
		if code := execute(ctx, p, append(strings.Fields(command), "-c", file)); code != app.ExitDone || strings.Contains(stdout.String(), "not known") || stderr.Len() > 0 {
			t.Errorf("%s: exit code %d:\n%s%s", command, code, stdout, stderr)
		}
	}
	if !b.OpenTransaction(t, "whitened") {
		t.Error("the transaction has ended")
	}
}
