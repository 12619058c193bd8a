package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/pipeline/episode"
)

// Episodes are those of transactions that were committed. One that is open is not waited for: a look at what has happened must not hang on a transform
// that does.
func TestEpisodesAreCommitted(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		b.CreateTopic(t, "alarms", 1, nil)
		file := filepath.Join(t.TempDir(), "stream.yaml")
		if err := os.WriteFile(file, []byte("kafka: {brokers: ["+strings.Join(b.Addrs(), ", ")+"]}\nsource: {topic: events}\nalarms: {topic: alarms}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := func(producer string, r episode.Record) *kgo.Client {
			value, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			c, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.TransactionalID(producer), kgo.MetadataMinAge(10*time.Millisecond))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			if err = c.BeginTransaction(); err == nil {
				err = c.ProduceSync(ctx, &kgo.Record{Topic: "alarms", Key: []byte("m/0/~"), Value: value}).FirstErr()
			}
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		opened := episode.Record{Type: episode.Opened, ID: "m/0/~/7.0"}
		closed := episode.Record{Type: episode.Closed, ID: opened.ID}
		if err := errors.Join(begin("a", opened).EndTransaction(ctx, kgo.TryCommit), begin("b", closed).EndTransaction(ctx, kgo.TryAbort)); err != nil {
			t.Fatal(err)
		}
		begin("c", closed)
		p, stdout, stderr := inTest()
		code := execute(ctx, p, []string{"episodes", "list", "-c", file})
		if said := stdout.String(); code != app.ExitDone || strings.Count(said, "\n") != 2 || !strings.Contains(said, "\nopen ") || !b.OpenTransaction(t, "alarms") {
			t.Errorf("exit code %d:\n%s%s", code, stdout, stderr)
		}
	})
}
