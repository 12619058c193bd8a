package bench

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/testtools"
)

// BenchmarkLatencyStreams is the latency of lca-stream, which scores, next to that of a Kafka Streams program that only
// copies (exactly_once_v2): at its default, which commits each 100 ms, and committing as often as it can.
//
//	go test ./internal/bench -run '^$' -bench LatencyStreams -benchtime 1x
func BenchmarkLatencyStreams(b *testing.B) {
	const messages, perSecond = 2000, 200
	h := newHall(b)
	h.broker = kafkatest.Start(b, kafkatest.Kafka41)
	contestants := []string{"lca-stream", "Kafka Streams, commit.interval.ms=100", "Kafka Streams, commit.interval.ms=1"}
	rounds := map[string][][]time.Duration{}
	for round := range 1 + h.rounds { // the first is not counted, as in BenchmarkLatency
		for _, who := range contestants {
			id := fmt.Sprintf("streams-%d", time.Now().UnixNano())
			s := &stream{id: id, model: id, dim: 64, rows: 10, messages: 300, partitions: 2, broker: h.broker, binary: h.binary, neighbours: 3000}
			s.create(b)
			out := s.topic(b, id+"-out", 2, nil)
			var stop func()
			switch who {
			case "lca-stream":
				s.learnModel(b)
				stop = s.startTransform(b, "ours", out, messages)
			case "Kafka Streams, commit.interval.ms=1":
				stop = s.startStreams(b, out, "1")
			default:
				stop = s.startStreams(b, out, "100")
			}
			all := s.measure(b, out, messages, perSecond)
			stop()
			b.Log(who + quantiles(all))
			if round > 0 {
				rounds[who] = append(rounds[who], all)
			}
		}
	}
	var lines []string
	for _, who := range contestants {
		lines = append(lines, "| "+who+overRounds(rounds[who])+"\n")
	}
	b.ReportMetric(0, "ns/op")
	table(b, "streams", "| | p50, ms | p90 | p99 | most |\n|---|---|---|---|---|\n", lines)
}

// startStreams begins to copy with a thread for each partition, and returns once what is there already has come out.
func (s *stream) startStreams(b *testing.B, out, commitInterval string) (stop func()) {
	b.Helper()
	testtools.Tool(b, "javac", "to run testdata/PassThrough.java", "apt-get install default-jdk-headless", "brew install openjdk")
	state := b.TempDir()
	cmd := exec.Command("java", "-cp", filepath.Join(kafkatest.Jars(b, "kafka-streams-4.1.0"), "*"), "testdata/PassThrough.java",
		s.broker.Addrs()[0], s.id+"-in", out, commitInterval, fmt.Sprint(s.partitions), state)
	p := kafkatest.StartProcess(b, cmd, state)
	s.read(b, out, nil, s.messages, func(*kgo.Record) bool { return true })
	return p.Kill
}
