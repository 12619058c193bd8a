package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/testtools"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// BenchmarkReplay replays a topic of 64 columns in one pass that learns every 10th minibatch, and
// reports rows per second of wall time and of the process's CPU time, and its largest resident size,
// which must not grow with the topic.
//
//	go test ./internal/bench -run '^$' -bench Replay -benchtime 1x -timeout 1h
func BenchmarkReplay(b *testing.B) {
	const d, rows = 64, 1000
	binary := filepath.Join(b.TempDir(), "lca-stream")
	if out, err := exec.Command("go", "build", "-o", binary, "../../cmd/lca-stream").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	broker := kafkatest.Start(b, kafkatest.Kafka41)
	for _, total := range []int{100_000, 1_000_000} {
		topic := fmt.Sprintf("replay-%d", total)
		fillFresh(b, broker, topic, total/rows, d, rows)
		config := filepath.Join(b.TempDir(), "replay.yaml")
		text := fmt.Sprintf("kafka: {brokers: [%q]}\nsource: {topic: %s, features: [x]}\nhttp: {listen: \"\"}\n", broker.Addrs()[0], topic)
		if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
		for _, every := range []int{10, 1} {
			if every == 1 && total > 100_000 {
				continue // it is what learn does: see EndToEnd
			}
			b.Run(fmt.Sprintf("rows=%d/every=%d", total, every), func(b *testing.B) {
				for range b.N {
					replay(b, binary, config, total, every)
				}
			})
		}
	}
}

func replay(b *testing.B, binary, config string, total, every int) {
	cmd := exec.Command(binary, "replay", "-c", config, "--every", fmt.Sprint(every), "--output", filepath.Join(b.TempDir(), "m.arrows"), "--json")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	began := time.Now()
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	peak := testtools.WatchPeak(cmd.Process.Pid)
	if err := cmd.Wait(); err != nil {
		b.Fatalf("%v: %v\n%s", cmd, err, out.String())
	}
	wall := time.Since(began)
	var result struct {
		Rows   int `json:"rows"`
		Learnt int `json:"learnt_rows"`
	}
	if err := json.Unmarshal(out.Bytes(), &result); err != nil || result.Rows != total || result.Learnt < total/every*9/10 {
		b.Fatalf("%v printed %s (%v)", cmd, out.String(), err)
	}
	cpu := spent(cmd)
	b.ReportMetric(float64(total)/wall.Seconds(), "rows/s")
	b.ReportMetric(float64(total)/cpu, "rows/cpu-s")
	b.ReportMetric(float64(peak()), "peak-MiB")
	b.ReportMetric(0, "ns/op")
}

// fillFresh writes messages of rows that are all different, in two partitions.
func fillFresh(b *testing.B, broker *kafkatest.Broker, topic string, messages, d, rows int) {
	b.Helper()
	broker.CreateTopic(b, topic, 2, nil)
	c, err := kafkaconn.Open(kafkaconn.Config{Brokers: broker.Addrs()})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	k, err := sink.OpenKafka(context.Background(), sink.KafkaConfig{Cluster: c, TransactionalID: topic})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = k.Close() }()
	for i := 0; i < messages; i += 20 {
		var msgs []sink.Message
		for j := i; j < min(i+20, messages); j++ {
			msgs = append(msgs, sink.Message{Topic: topic, Partition: int32(j % 2), Value: messageOf(b, d, rows), Time: time.UnixMilli(int64(1_700_000_000_000 + j))})
		}
		if err := k.Put(context.Background(), msgs, source.Claim{}); err != nil {
			b.Fatal(err)
		}
	}
}
