package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// A broker that is busy, or where a token has ended, closes a connection. Commands that look ask again, as processes that stay do, and say so. Here
// the first request of each kind gets no answer, except the end of a transaction: whether that is committed would not be known.
func TestCommandsOutliveAClosedConnection(t *testing.T) {
	t.Parallel()
	b := kafkatest.Start(t, kafkatest.Embedded)
	b.CreateTopic(t, "events", 1, nil)
	b.CreateTopic(t, "alarms", 1, nil)
	for i := range 600 {
		forge(t, b, "events", kafka.Record{Key: kafka.NewBytes([]byte("k")), Value: kafka.NewBytes(fmt.Appendf(nil, `{"x":%d.5,"y":%d}`, i*7%13, i*5%11))})
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "stream.yaml")
	text := fmt.Sprintf("kafka: {brokers: [%q]}\nlca: {neighbours: 200, warmup_rows: 100}\nhttp: {listen: \"\"}\n", b.Addrs()[0])
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"topics", "init", "-c", file}, {"topics", "check", "-c", file}, {"init", "events", "--brokers", b.Addrs()[0]}, {"inspect", "events", "-c", file},
		{"replay", "-c", file, "--from", "earliest", "--to", "latest"}, {"doctor", "-c", file},
		{"snapshot", "list", "-c", file}, {"snapshot", "show", "-c", file}, {"snapshot", "export", "-c", file, "--output", filepath.Join(dir, "model.json")},
		{"episodes", "list", "-c", file, "--set", "alarms.topic=alarms"}, {"offsets", "show", "-c", file}, {"offsets", "reset", "-c", file, "--to", "earliest"},
	} {
		seen := map[int16]bool{}
		var lock sync.Mutex
		over := false
		b.Embedded().Cluster().Control(func(r kmsg.Request) (kmsg.Response, error, bool) {
			lock.Lock()
			defer lock.Unlock()
			if over {
				return nil, nil, false
			}
			b.Embedded().Cluster().KeepControl()
			if seen[r.Key()] || r.Key() == int16(kmsg.ApiVersions) || r.Key() == int16(kmsg.EndTxn) {
				return nil, nil, false
			}
			seen[r.Key()] = true
			return nil, errors.New("closed"), true
		})
		p, stdout, stderr := inTest()
		code := execute(t.Context(), p, args)
		lock.Lock()
		over = true
		lock.Unlock()
		if code != app.ExitDone || !strings.Contains(stderr.String(), "asking again") {
			t.Errorf("%q ends with %d, and says\n%s%s", args[:2], code, stdout, stderr)
		}
	}
}
